-- Security definer: a reader may report its progress, but may not write to the table.
create or replace function sluice.report_pipeline(
    queue_name text, consumer_name text, row_count bigint, last_commit_at timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Some 15,000 reports.
    v_bytes_max constant bigint := 1048576;
    v_newest sluice.pipeline_report[];
    -- See sluice.hold_pipeline. A query may take longer than this to start.
    v_silence_max constant text := '30s';
begin
    perform set_config('idle_session_timeout', v_silence_max, false);
    insert into sluice.pipeline_report (pipeline_id, reported_at, last_commit_at, row_count)
    select p.pipeline_id, clock_timestamp(),
        coalesce(
            report_pipeline.last_commit_at,
            (
                select r.last_commit_at
                from sluice.pipeline_report as r
                where r.pipeline_id = p.pipeline_id
                order by r.report_id desc
                limit 1
            )
        ),
        report_pipeline.row_count
    from sluice.pipeline as p
    where p.queue_id = (pgq._require_log(queue_name)).queue_id and p.consumer_name = report_pipeline.consumer_name;

    -- A snapshot older than the lock might not show the newest reports.
    if pg_relation_size('sluice.pipeline_report') >= v_bytes_max
        and current_setting('transaction_isolation') = 'read committed'
        and pgq._lock_tables(array['sluice.pipeline_report']::regclass[], 'access exclusive', 0)
    then
        v_newest := array(
            select r
            from sluice.pipeline as p
            cross join lateral (
                select newest.*
                from sluice.pipeline_report as newest
                where newest.pipeline_id = p.pipeline_id
                order by newest.report_id desc
                limit 1
            ) as r
        );
        truncate sluice.pipeline_report;
        insert into sluice.pipeline_report (pipeline_id, reported_at, last_commit_at, row_count)
        select n.pipeline_id, n.reported_at, n.last_commit_at, n.row_count
        from unnest(v_newest) as n;
    end if;

    return (
        select c.pending_events from pgq.get_consumer_info(report_pipeline.queue_name, report_pipeline.consumer_name) as c
    );
end;
$$;

comment on function sluice.report_pipeline(text, text, bigint, timestamptz) is
    'Report the progress of a pipeline: rows written since its start, and the time of its last commit, null for none since its start. Returns the events after its position, up to the newest tick; null if its consumer is not registered.';
revoke execute on function sluice.report_pipeline(text, text, bigint, timestamptz) from public;
grant execute on function sluice.report_pipeline(text, text, bigint, timestamptz)
to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
