/*
 * One query at a time reads a log under a consumer name: two of them would move its position past events that the other one
 * has not read.
 *
 * The lock belongs to the session and ends with it, so a killed driver releases it. A driver cut off by the network would
 * keep it for hours: from its first report on, the server ends a session that has not reported for some time. Behind a
 * pooler the lock would stay with a server session that other clients use; there the backend pid that the client knows is
 * not that of the server process.
 *
 * Calls: pgq._require_log, sluice._require_short_name, sluice._session. Writes: sluice.pipeline.
 *
 * Security definer: a reader may register its pipeline, but may not write to the table.
 */
create or replace function sluice.hold_pipeline(
    queue_name text, consumer_name text, kind text, lake text, backend_pid integer
)
returns table (is_held boolean, holder text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_pid integer;
    v_pipeline sluice.pipeline;
begin
    v_queue_id := (pgq._require_log(queue_name)).queue_id;
    perform sluice._require_short_name('name of the consumer'::text, consumer_name);
    if backend_pid = pg_backend_pid() then
        v_pid := sluice._pipeline_holder(v_queue_id, consumer_name);
        is_held := v_pid is not distinct from pg_backend_pid()
            or pg_try_advisory_lock(sluice._pipeline_key(v_queue_id, consumer_name));
        if not is_held then
            select p.*
            into v_pipeline
            from sluice.pipeline as p
            where p.queue_id = v_queue_id and p.consumer_name = hold_pipeline.consumer_name;
            v_pid := sluice._pipeline_holder(v_queue_id, consumer_name);
            holder := sluice._session(v_pid);
            if v_pipeline.held_by like format('pid %s,%%', v_pid) then
                holder := format(
                    '%s, since %s, for the lake %s', v_pipeline.held_by, v_pipeline.held_since, v_pipeline.lake
                );
            end if;
            return next;
            return;
        end if;
    end if;

    holder := format(
        'pid %s, role %s, application %L, address %s', pg_backend_pid(), session_user, current_setting('application_name'),
        coalesce(host(inet_client_addr()), 'local')
    );
    -- Those of retired consumers.
    delete from sluice.pipeline as p
    where p.queue_id = v_queue_id
      and p.consumer_name <> hold_pipeline.consumer_name
      and sluice._pipeline_holder(p.queue_id, p.consumer_name) is null
      and not exists (
          select
          from pgq.subscriber as s
          join pgq.consumer as c on c.co_id = s.sub_consumer
          where s.sub_queue = p.queue_id and c.co_name = p.consumer_name
      );
    insert into sluice.pipeline as p (queue_id, consumer_name, kind, lake, held_since, held_by)
    values (v_queue_id, consumer_name, kind, lake, clock_timestamp(), holder)
    on conflict on constraint pipeline_queue_id_consumer_name_key do update
    set kind = excluded.kind, lake = excluded.lake, held_since = excluded.held_since, held_by = excluded.held_by;
    return next;
end;
$$;

comment on function sluice.hold_pipeline(text, text, text, text, integer) is
    'Hold the consumer of a pipeline until the end of this session, which must call sluice.report_pipeline every few seconds; backend_pid is the one that the client knows. False: holder, another session, holds it. Null: behind a pooler, none can hold it.';
revoke execute on function sluice.hold_pipeline(text, text, text, text, integer) from public;
grant execute on function sluice.hold_pipeline(text, text, text, text, integer)
to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
