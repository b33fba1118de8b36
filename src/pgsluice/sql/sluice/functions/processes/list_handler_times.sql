/*
 * The only place that computes percentiles of durations: from the sums of the buckets of all workers. Within its bucket a
 * percentile is interpolated, as by Prometheus; no call of the last bucket takes longer than the longest. A worker that has
 * been upgraded may have other buckets: so reports name their bounds.
 *
 * Calls: sluice.list_workers. The names of queues are compared in lower case.
 */
create or replace function sluice.list_handler_times(of_source text default null, of_worker text default null)
returns table (
    app text, source text, handler text, workers bigint, calls bigint, p50_s double precision, p95_s double precision,
    max_s double precision
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    with reported as (
        select w.app, t.source, t.handler, t.buckets, count(*) over h as workers, max(t.max_s) over h as max_s
        from sluice.list_workers() as w
        cross join lateral jsonb_to_recordset(w.times) as t (source text, handler text, max_s double precision, buckets jsonb)
        where w.is_live
          and (of_worker is null or w.worker_id = of_worker)
          and (
              of_source is null or t.source = of_source
              or (of_source like 'queue %' and lower(t.source) = lower(of_source))
          )
        window h as (partition by w.app, t.source, t.handler)
    ),
    bucket as (
        select r.app, r.source, r.handler, r.workers, r.max_s, (b.value ->> 0)::double precision as above_s,
            least((b.value ->> 1)::double precision, r.max_s) as upto_s, sum((b.value ->> 2)::bigint)::bigint as calls
        from reported as r
        cross join lateral jsonb_array_elements(r.buckets) as b (value)
        group by 1, 2, 3, 4, 5, 6, 7
    ),
    counted as (
        select b.*, sum(b.calls) over (h order by b.above_s, b.upto_s) as cumulated, sum(b.calls) over h as total
        from bucket as b
        window h as (partition by b.app, b.source, b.handler)
    )
    select c.app, c.source, c.handler, c.workers, c.total::bigint,
        min(c.above_s + (c.upto_s - c.above_s) * (0.5 * c.total - c.cumulated + c.calls) / c.calls)
            filter (where c.cumulated - c.calls < 0.5 * c.total and c.cumulated >= 0.5 * c.total),
        min(c.above_s + (c.upto_s - c.above_s) * (0.95 * c.total - c.cumulated + c.calls) / c.calls)
            filter (where c.cumulated - c.calls < 0.95 * c.total and c.cumulated >= 0.95 * c.total),
        c.max_s
    from counted as c
    group by c.app, c.source, c.handler, c.workers, c.total, c.max_s
    order by c.app, c.source, c.handler;
$$;

comment on function sluice.list_handler_times(text, text) is
    'Return how long the calls of handlers took that ended in the last five to ten minutes, over all live workers, of one source (queue Q, log L group G, log L consumer C) or one worker, or of all: their number, and their median, 95th percentile and maximum in seconds. A batch is one call.';
revoke execute on function sluice.list_handler_times(text, text) from public;
grant execute on function sluice.list_handler_times(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
