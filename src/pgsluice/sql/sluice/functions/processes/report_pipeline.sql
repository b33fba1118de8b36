-- Security definer: a reader may report its progress, but may not write to the table.
create or replace function sluice.report_pipeline(
    log_name text, consumer_name text, row_count bigint, last_commit_at timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- See sluice.hold_pipeline. A query may take longer than this to start.
    v_silence_max constant text := '30s';
begin
    perform set_config('idle_session_timeout', v_silence_max, false);
    insert into sluice.process_report (process_id, reported_at, last_commit_at, row_count)
    select k.process_id, clock_timestamp(), coalesce(report_pipeline.last_commit_at, k.last_commit_at), report_pipeline.row_count
    from sluice.reporting as k
    where k.queue_id = (pgq._require_log(log_name)).queue_id and k.consumer_name = report_pipeline.consumer_name;
    perform sluice._maintain_processes(null::interval);
    return (
        select c.pending_events from pgq.get_consumer_info(report_pipeline.log_name, report_pipeline.consumer_name) as c
    );
end;
$$;

comment on function sluice.report_pipeline(text, text, bigint, timestamptz) is
    'Report the progress of a pipeline: rows written since its start, and the time of its last commit, null for none since its start. Returns the events after its position, up to the newest tick; null if its consumer is not registered.';
revoke execute on function sluice.report_pipeline(text, text, bigint, timestamptz) from public;
grant execute on function sluice.report_pipeline(text, text, bigint, timestamptz)
to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
