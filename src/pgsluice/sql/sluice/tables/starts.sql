-- A ledger: rows are appended, one per claim from a queue with a rate. before is a running total, so the number started in an
-- interval is the difference of two rows, however many lie between them.
create table sluice.queue_start (
    limits_id integer not null,
    started_at timestamptz not null,
    before bigint not null,
    started integer not null,
    primary key (limits_id, started_at, before)
);
comment on table sluice.queue_start is 'A ledger of claims from queues with a rate: time, count, and running total.';

create table sluice.parked_key (
    limits_id integer not null references sluice.queue_settings (limits_id) on delete cascade,
    key_hash bigint not null,
    key text not null,
    msg_id bigint not null,
    parked_at timestamptz not null,
    primary key (limits_id, key_hash)
);
comment on table sluice.parked_key is
    'Parked keys of queues, which are not claimed until sluice.unpark_key, each with the message that parked it.';

grant select on sluice.queue_start to sluice_monitor;
-- Claims write them.
grant select, insert, delete on sluice.queue_start to sluice_reader;
grant select, insert, update, delete on sluice.queue_start to sluice_admin;
grant select, insert on sluice.parked_key to sluice_reader;
grant select, insert, delete on sluice.parked_key to sluice_admin;
-- A key is user data: not for monitoring roles. A hash would reveal a guessed key.
grant select (limits_id, msg_id, parked_at) on sluice.parked_key to sluice_monitor;
