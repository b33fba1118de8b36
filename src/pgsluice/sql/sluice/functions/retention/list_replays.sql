create or replace function sluice.list_replays()
returns table (
    replay_id bigint,
    queue_name text,
    target_queue_name text,
    conditional jsonb,
    conditional_headers jsonb,
    since timestamptz,
    until timestamptz,
    replayed bigint,
    started_at timestamptz,
    finished_at timestamptz
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select r.replay_id, r.queue_name, r.target_queue_name, r.conditional, r.conditional_headers, r.since, r.until,
        r.replayed, r.started_at, r.finished_at
    from sluice.replay as r
    order by r.replay_id;
$$;

comment on function sluice.list_replays() is
    'Return running (finished_at is null) and finished replays, oldest first, with the number of messages sent.';
revoke execute on function sluice.list_replays() from public;
grant execute on function sluice.list_replays() to sluice_admin, sluice_reader;
