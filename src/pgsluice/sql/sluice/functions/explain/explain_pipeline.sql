-- See sluice.explain_message for the columns. Calls: sluice._explain_position, sluice._explain_ticks.
create or replace function sluice.explain_pipeline(queue_name text, consumer_name text)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log constant pgq.queue := pgq._require_log(queue_name);
    v_may_read constant boolean := sluice._may_read(format('pgq.event_%s', v_log.queue_id)::regclass);
    v_pipeline sluice.pipeline;
    v_report sluice.pipeline_report;
    v_pid integer;
begin
    perform sluice._require_consumer(v_log, consumer_name);
    select p.* into v_pipeline
    from sluice.pipeline as p
    where p.queue_id = v_log.queue_id and p.consumer_name = explain_pipeline.consumer_name;
    if not found then
        return query values (
            1, 'state', null::timestamptz, format('No pipeline ever held consumer %s of log %s', consumer_name, v_log.queue_name),
            '{"state": "unknown"}'::jsonb
        );
        return;
    end if;
    v_pid := sluice._pipeline_holder(v_log.queue_id, consumer_name);
    select r.* into v_report
    from sluice.pipeline_report as r
    where r.pipeline_id = v_pipeline.pipeline_id
    order by r.report_id desc
    limit 1;
    return query
        select (row_number() over (order by part.number, part.position))::integer, part.section,
            case when isfinite(part.at) then part.at end, part.fact, jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, 1::bigint as position, 'state' as section, v_pipeline.held_since as at,
                format(
                    'Pipeline %s from log %s, consumer %s, into %s is %s', v_pipeline.kind, v_log.queue_name, consumer_name, v_pipeline.lake,
                    case when v_pid is null then 'not running; it last started' else 'running; it started' end
                ) as fact,
                jsonb_build_object(
                    'state', case when v_pid is null then 'stopped' else 'running' end, 'kind', v_pipeline.kind, 'lake', v_pipeline.lake,
                    'pid', v_pid
                ) as detail
            union all
            select 2, 1, 'history', v_report.last_commit_at, 'It last committed to the lake', '{}' where v_report.last_commit_at is not null
            union all
            select 2, 2, 'history', v_report.reported_at,
                format('It last reported: %s since its start', sluice._counted(v_report.row_count, 'row')), jsonb_build_object('row_count', v_report.row_count)
            where v_report.reported_at is not null
            union all
            select 3, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_position(v_log, consumer_name) with ordinality as r (at, fact, detail, position)
            union all
            select 4, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_ticks(v_log) with ordinality as r (at, fact, detail, position)
            union all
            select 5, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_failures(v_log.queue_name, null::text, v_may_read) with ordinality as r (at, fact, detail, position)
            union all
            select 6, 1, 'next', null::timestamptz,
                case
                    when v_pid is null then format('Nothing, until pgsluice pipeline run %s is started for this consumer', v_pipeline.kind)
                    else 'It reads the events up to the newest tick and commits them to the lake'
                end,
                '{}'
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_pipeline(text, text) is
    'Explain a pipeline from a log into the lake: whether a process holds its consumer, its last commit, and why it is behind; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_pipeline(text, text) from public;
grant execute on function sluice.explain_pipeline(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
