-- A message that waits for others, and each message that it waits for. By the names of queues and not by oids, which a restored dump
-- changes.
create table sluice.successor (
    successor_id bigint primary key generated always as identity,
    queue_table text not null,
    msg_id bigint not null,
    remaining integer not null,
    is_failing boolean not null,
    failure text,
    visible_at timestamptz not null
);
comment on table sluice.successor is
    'Messages sent to run after others, until all of those are done. Their vt is infinity.';
comment on column sluice.successor.remaining is 'Number of messages that it still waits for.';
comment on column sluice.successor.is_failing is 'True if it is dead-lettered when one of them is; false: it runs after them in any case.';
comment on column sluice.successor.failure is 'The first of them that was dead-lettered, with the reason.';
comment on column sluice.successor.visible_at is 'When it becomes visible at the earliest: its delay.';
create index successor_msg_id_idx on sluice.successor (queue_table, msg_id);

-- Without a foreign key: a row may outlive its successor, until its message is done. To remove it with the successor would wait for a
-- transaction that finishes this message and itself waits for the successor.
create table sluice.predecessor (
    queue_table text not null,
    msg_id bigint not null,
    successor_id bigint not null,
    noted_at timestamptz not null default now(),
    check_at timestamptz not null default now() + interval '1 minute',
    primary key (queue_table, msg_id, successor_id)
);
comment on table sluice.predecessor is 'The messages that others wait for, each with one that waits.';
comment on column sluice.predecessor.check_at is 'When maintenance next checks if the message is in its queue.';
create index predecessor_successor_idx on sluice.predecessor (successor_id);
create index predecessor_check_at_idx on sluice.predecessor (check_at);

grant select, insert, update, delete on sluice.successor, sluice.predecessor to sluice_admin;
