-- Without a name it processes a page of the logs, 40 with the default settings, and the shared tables after the last page;
-- the next call of the session continues. The setting sluice.rotate_after is '>' and the name of the last log of the page,
-- and '>' alone after the last page.
create or replace function sluice.rotate(
    inout log_name text default null, out segment integer, out action text, out reason text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- A log with five segments has some 40 tables, indexes and sequences.
    v_page_logs constant integer := greatest(sluice._lock_slots() / 4 / 40, 2);
    v_after constant text := case when log_name is null then pgq._page_start('sluice.rotate_after'::text, v_page_logs) end;
    v_logs integer := 0;
    v_queue record;
    v_step text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot rotate an event log in a %s transaction', current_setting('transaction_isolation')),
            detail = 'Its snapshot is from the start of the transaction; events and consumers may have changed since.',
            hint = 'rotate in a READ COMMITTED transaction';
    end if;
    if log_name is not null then
        perform pgq._require_log(log_name);
    end if;
    for v_queue in
        select q.queue_id, q.queue_name
        from pgq.queue as q
        where q.queue_name = rotate.log_name
           or rotate.log_name is null and (v_after is null or q.queue_name > v_after)
        order by q.queue_name
        limit v_page_logs
    loop
        v_logs := v_logs + 1;
        -- A failing log must not stop the others.
        begin
            return query
                select v_queue.queue_name, r.segment, r.action, r.reason from pgq._rotate(v_queue.queue_id, false) as r;
            perform sluice._note_failure('rotate'::text, v_queue.queue_name::text, null::text, null::text);
        exception
            when others then
                perform sluice._note_failure(
                    'rotate'::text, v_queue.queue_name::text, null::text, format('%s (%s)', sqlerrm, sqlstate)
                );
                return query select v_queue.queue_name, null::integer, 'failed', format('%s (%s)', sqlerrm, sqlstate);
        end;
    end loop;
    if log_name is null then
        perform set_config('sluice.rotate_after', '>' || case when v_logs = v_page_logs then v_queue.queue_name else '' end, false);
        if v_logs = v_page_logs then
            return;
        end if;
    end if;
    -- Tables that all logs share.
    foreach v_step in array array['pgq._maintain_positions(8388608::bigint)', 'pgq._maintain_retry(8388608::bigint, 20000)']
    loop
        begin
            execute 'select ' || v_step;
            perform sluice._note_failure(split_part(v_step, '('::text, 1), null::text, null::text, null::text);
        exception
            when others then
                perform sluice._note_failure(split_part(v_step, '('::text, 1), null::text, null::text, format('%s (%s)', sqlerrm, sqlstate));
                return query select null::text, null::integer, 'failed', format('%s: %s (%s)', v_step, sqlerrm, sqlstate);
        end;
    end loop;
    -- Failures of dropped objects and of steps no longer attempted.
    delete from sluice.failure as f
    where f.failed_at < clock_timestamp() - interval '1 day'
       or f.task in ('tick', 'retry', 'rotate', 'groups', 'repair')
          and not exists (select from pgq.queue as q where q.queue_name = f.queue_name)
       or f.task = 'groups'
          and not exists (
              select from sluice.share_group as g where g.log_name = f.queue_name and g.group_name = f.group_name
          );
    return query
        select m.log_name, null::integer, m.action,
            coalesce('share group ' || m.group_name || coalesce(': ' || m.reason, ''), 'share groups: ' || m.reason, 'share groups')
        from sluice.maintain_groups(rotate.log_name) as m;
end;
$$;

comment on function sluice.rotate(text) is
    'Rotate one event log or all: truncate segments that no consumer needs, and switch to another segment when due. Returns the steps done and skipped, with reasons. With dozens of logs each call of a session handles a part.';
revoke execute on function sluice.rotate(text) from public;
grant execute on function sluice.rotate(text) to pgq_admin, sluice_admin;
