-- Calls: sluice.list_workers. The names of queues are compared in lower case.
create or replace function sluice.handler_policies(source text)
returns table (
    app text, handler text, workers bigint, max_attempts integer, backoff text, backoff_base interval, backoff_max interval,
    backoff_factor double precision, backoff_jitter boolean
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select w.app, p.handler, count(*), p.max_attempts, p.backoff, make_interval(secs => p.backoff_base),
        make_interval(secs => p.backoff_max), p.backoff_factor, p.backoff_jitter
    from sluice.list_workers() as w
    cross join lateral jsonb_to_recordset(w.policies) as p (
        source text, handler text, max_attempts integer, backoff text, backoff_base double precision, backoff_max double precision,
        backoff_factor double precision, backoff_jitter boolean
    )
    where w.is_live
      and case when source like 'queue %' then lower(p.source) = lower(handler_policies.source) else p.source = handler_policies.source end
    group by w.app, p.handler, p.max_attempts, p.backoff, p.backoff_base, p.backoff_max, p.backoff_factor, p.backoff_jitter
    order by w.app, p.handler, p.max_attempts desc;
$$;

comment on function sluice.handler_policies(text) is
    'Return the retry policies that handlers of live workers declare for a source (queue Q, log L group G, log L consumer C), with the number of processes; they override the options of the queue or share group.';
revoke execute on function sluice.handler_policies(text) from public;
grant execute on function sluice.handler_policies(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
