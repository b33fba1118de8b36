-- Messages between two databases. They are in no queue, so that no worker claims them and no operator changes them: the same row
-- could else be handled at its old shard after it was copied to the new one.
create table sluice.moving_message (
    moving_id uuid primary key default gen_random_uuid(),
    to_shard text not null,
    queue_name text not null,
    msg_id bigint not null,
    key text not null,
    read_ct integer not null,
    enqueued_at timestamptz not null,
    last_read_at timestamptz,
    vt timestamptz not null,
    message jsonb,
    headers jsonb not null,
    attempt jsonb
);
comment on table sluice.moving_message is
    'Messages on their way to another shard. Written by sluice.take_moving, removed by sluice.next_moving when they have arrived.';
comment on column sluice.moving_message.moving_id is 'By it the other database knows which messages it has received.';
comment on column sluice.moving_message.attempt is 'The row of the message in sluice.attempt; null: none.';
create index moving_message_to_shard_idx on sluice.moving_message (to_shard, queue_name, msg_id);

grant select, insert, delete on sluice.moving_message to sluice_admin;
grant select (to_shard, queue_name, msg_id) on sluice.moving_message to sluice_monitor;
