create table sluice.log_policy (
    queue_id integer primary key references pgq.queue (queue_id) on delete cascade,
    max_lag_bytes bigint check (max_lag_bytes > 0),
    max_lag_events bigint check (max_lag_events > 0),
    max_lag_time interval check (max_lag_time > '0'),
    keepers text[] not null default '{}'
);
comment on table sluice.log_policy is
    'Logs whose consumers may be dropped when their lag exceeds a limit. No row: a log keeps all events for every consumer.';
comment on column sluice.log_policy.keepers is
    'Consumers that are never dropped and without which no segment is truncated, registered or not: archivers.';

-- The options of a log: those that PgQ has, in pgq.queue, and ours. Passed between functions; not stored in a table.
create type sluice.log_settings as (
    log_name text,
    ticker_max_count integer,
    ticker_max_lag interval,
    ticker_idle_period interval,
    ticker_paused boolean,
    rotation_period interval,
    external_ticker boolean,
    max_lag_bytes bigint,
    max_lag_events bigint,
    max_lag_time interval,
    keepers text[]
);

grant select on sluice.log_policy to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
