/*
 * One query at a time reads a log under a consumer name: two of them would move its position past events that the other one
 * has not read.
 *
 * The lock belongs to the session and ends with it, so a killed driver releases it. A driver cut off by the network would
 * keep it for hours: from its first report on, the server ends a session that has not reported for some time. Behind a
 * pooler the lock would stay with a server session that other clients use; there the backend pid that the client knows is
 * not that of the server process.
 *
 * Calls: pgq._require_log, sluice._require_short_name, sluice._session. Writes: sluice.process.
 *
 * Security definer: a reader may register its pipeline, but may not write to the table.
 */
create or replace function sluice.hold_pipeline(
    log_name text, consumer_name text, kind text, lake text, backend_pid integer
)
returns table (is_held boolean, holder text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_pid integer;
    v_process_id text;
begin
    v_queue_id := (pgq._require_log(log_name)).queue_id;
    perform sluice._require_short_name('name of the consumer'::text, consumer_name);
    v_process_id := format('log %s consumer %s', v_queue_id, consumer_name);
    if backend_pid = pg_backend_pid() then
        v_pid := sluice._pipeline_holder(v_process_id);
        is_held := v_pid is not distinct from pg_backend_pid()
            or pg_try_advisory_lock(hashtextextended(v_process_id, 0));
        if not is_held then
            v_pid := sluice._pipeline_holder(v_process_id);
            select format('%s, since %s, for the lake %s', k.held_by, k.started_at, k.lake)
            into holder
            from sluice.reporting as k
            where k.process_id = v_process_id and k.pid = v_pid;
            holder := coalesce(holder, sluice._session(v_pid));
            return next;
            return;
        end if;
    end if;

    -- Those of retired consumers.
    delete from sluice.process as p
    where p.queue_id = v_queue_id
      and p.consumer_name <> hold_pipeline.consumer_name
      and sluice._pipeline_holder(p.process_id) is null
      and not exists (
          select
          from pgq.subscriber as s
          join pgq.consumer as c on c.co_id = s.sub_consumer
          where s.sub_queue = p.queue_id and c.co_name = p.consumer_name
      );
    insert into sluice.process (
        process_id, kind, app, host, pid, role_name, started_at, sources, queue_id, consumer_name, lake
    )
    values (
        v_process_id, kind, current_setting('application_name'), coalesce(host(inet_client_addr()), 'local'), pg_backend_pid(),
        session_user, clock_timestamp(), array[format('log %s consumer %s', log_name, consumer_name)], v_queue_id,
        consumer_name, lake
    )
    on conflict on constraint process_pkey do update
    set kind = excluded.kind, app = excluded.app, host = excluded.host, pid = excluded.pid, role_name = excluded.role_name,
        started_at = excluded.started_at, queue_id = excluded.queue_id, consumer_name = excluded.consumer_name, lake = excluded.lake;
    holder := (select k.held_by from sluice.reporting as k where k.process_id = v_process_id);
    return next;
end;
$$;

comment on function sluice.hold_pipeline(text, text, text, text, integer) is
    'Hold the consumer of a pipeline until the end of this session, which must call sluice.report_pipeline every few seconds; backend_pid is the one that the client knows. False: holder, another session, holds it. Null: behind a pooler, none can hold it.';
revoke execute on function sluice.hold_pipeline(text, text, text, text, integer) from public;
grant execute on function sluice.hold_pipeline(text, text, text, text, integer)
to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
