-- The options of a log: the columns of pgq.queue. Passed between functions; not stored in a table.
create type sluice.log_settings as (
    queue_name text,
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
