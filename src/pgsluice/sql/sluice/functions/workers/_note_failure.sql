-- Called by maintenance, in the transaction of the step. A repeated failure is written once in ten seconds: a log that
-- cannot be ticked fails a hundred times a second. It never makes a step fail: a row that another session writes is skipped.
create or replace function sluice._note_failure(i_task text, i_queue_name text, i_group_name text, i_error text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
    v_period constant interval := '10 seconds';
    v_now constant timestamptz := clock_timestamp();
    v_error constant text := left(i_error, 1000);
    v_last sluice.failure;
begin
    select f.*
    into v_last
    from sluice.failure as f
    where f.task = i_task and f.queue_name = coalesce(i_queue_name, '') and f.group_name = coalesce(i_group_name, '');
    if found and v_last.error = v_error and v_now >= v_last.failed_at and v_now < v_last.failed_at + v_period then
        return;
    end if;
    if v_last.task is null and v_error is null then
        return;
    end if;
    begin
        if v_error is null then
            delete from sluice.failure as f
            where f.task = i_task and f.queue_name = coalesce(i_queue_name, '') and f.group_name = coalesce(i_group_name, '');
        else
            insert into sluice.failure as f (task, queue_name, group_name, failed_since, failed_at, error)
            values (i_task, coalesce(i_queue_name, ''), coalesce(i_group_name, ''), v_now, v_now, v_error)
            on conflict (task, queue_name, group_name) do update
            set failed_at = excluded.failed_at, error = excluded.error;
        end if;
    exception
        when lock_not_available or deadlock_detected then
            null;
    end;
end;
$$;

comment on function sluice._note_failure(text, text, text, text) is
    'Record the failure of a maintenance task for a queue, log or share group; a null error deletes the record.';
revoke execute on function sluice._note_failure(text, text, text, text) from public;
grant execute on function sluice._note_failure(text, text, text, text) to sluice_admin;
