-- breaking: no
create table sluice.dead_letter (
    dead_letter_id bigint generated always as identity primary key,
    queue_name text not null,
    msg_id bigint not null,
    read_ct integer not null,
    enqueued_at timestamptz not null,
    last_read_at timestamptz,
    message jsonb,
    headers jsonb,
    reason text not null,
    error text,
    dead_at timestamptz not null default clock_timestamp()
);
comment on table sluice.dead_letter is
    'Dead letters: messages after their last attempt, with the reason and the last error.';
create index dead_letter_queue_name_idx on sluice.dead_letter (queue_name, dead_letter_id);

grant select, insert on sluice.dead_letter to sluice_reader;
grant select, insert, delete on sluice.dead_letter to sluice_admin;
