-- Why a consumer, or the pipeline that reads as it, has not read the newest events. Calls: sluice._pipeline_holder.
create or replace function sluice._explain_position(i_log pgq.queue, i_consumer_name text)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_absent_s constant integer := 3600; -- a consumer that reads once a minute pins segments, too
    c record;
    p record;
begin
    select l.* into c from sluice.list_consumers(i_log.queue_name) as l where l.consumer_name = i_consumer_name;
    if c.lost is not null then
        return query values (
            null::timestamptz, format('Its position was given up: %s', c.lost),
            jsonb_build_object(
                'cause', 'position lost',
                'command', format('pgsluice log unregister %s %s', sluice._shell_word(i_log.queue_name), sluice._shell_word(i_consumer_name))
            )
        );
        return;
    end if;
    select q.held_by, q.held_since, sluice._pipeline_holder(q.queue_id, q.consumer_name) as pid
    into p
    from sluice.pipeline as q
    where q.queue_id = i_log.queue_id and q.consumer_name = i_consumer_name;
    if found then
        return query values (
            p.held_since,
            case
                when p.pid is null then format('No pipeline holds it; the last one was %s, which took it', p.held_by)
                else format('A pipeline holds it: %s', p.held_by)
            end,
            jsonb_build_object('cause', case when p.pid is null then 'pipeline not running' else 'pipeline' end, 'pid', p.pid)
        );
    end if;
    if c.open_batch is not null then
        return query values (
            clock_timestamp() - make_interval(secs => c.idle_s),
            format('Batch %s is open and not finished; it was opened', c.open_batch),
            jsonb_build_object('cause', 'open batch', 'batch_id', c.open_batch)
        );
    end if;
    if c.lag_events > 0 then
        return query values (
            clock_timestamp() - make_interval(secs => c.idle_s),
            format('It is about %s behind the newest tick; it was last active', sluice._counted(c.lag_events, 'event')),
            jsonb_build_object('cause', 'consumer lag', 'lag_events', c.lag_events, 'lag_s', c.lag_s, 'pinned_bytes', c.pinned_bytes)
        );
        if c.pinned_bytes > 0 and p.pid is null and c.idle_s > v_absent_s then
            return query values (
                null::timestamptz,
                format('The log keeps %s of segments for it; if it does not return, unregister it', pg_size_pretty(c.pinned_bytes)),
                jsonb_build_object(
                    'cause', 'segments pinned', 'pinned_bytes', c.pinned_bytes,
                    'command', format('pgsluice log unregister %s %s', sluice._shell_word(i_log.queue_name), sluice._shell_word(i_consumer_name))
                )
            );
        end if;
    elsif c.open_batch is null then
        return query values (
            null::timestamptz, 'It has read all events up to the newest tick', '{"cause": "up to date"}'::jsonb
        );
    end if;
end;
$$;

comment on function sluice._explain_position(pgq.queue, text) is
    'Return the reasons why a consumer of a log is behind, or that it is not.';
revoke execute on function sluice._explain_position(pgq.queue, text) from public;
grant execute on function sluice._explain_position(pgq.queue, text) to pgq_admin, sluice_admin;
