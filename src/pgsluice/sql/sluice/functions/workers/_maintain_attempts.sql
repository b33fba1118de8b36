/*
 * Nobody who deletes or archives a message looks here: most messages have no row. So rows are looked at a minute after they were
 * written, and again when as much time has passed as since the first failure, a day at the most: a row outlives its message by
 * no more than its message lived, and a million that wait for their next attempt are not looked at again and again.
 *
 * Locked rows are skipped: somebody counts an attempt, or removes them. So any number may run at once. A message that is gone
 * does not come back under its id and enqueued_at.
 *
 * Reads: the queues, by msg_id. Writes: sluice.attempt.
 */
create or replace function sluice._maintain_attempts(rows_max integer default 5000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_due record;
    v_table text;
    v_removed bigint;
begin
    task := 'attempts';
    for v_due in
        with due as materialized (
            select noted.queue_name, noted.msg_id
            from sluice.attempt as noted
            where noted.check_at <= v_now
            order by noted.check_at
            limit rows_max
            for update skip locked
        )
        select due.queue_name, array_agg(due.msg_id) as msg_ids
        from due
        group by due.queue_name
    loop
        queue_name := v_due.queue_name;
        v_table := lower('q_' || queue_name);
        begin
            execute format(
                'delete from sluice.attempt as noted
                 where noted.queue_name = $1
                   and noted.msg_id = any ($2)
                   %s',
                case when to_regclass(format('pgmq.%I', v_table)) is not null then format(
                    'and not exists (
                        select from pgmq.%I as queued
                        where queued.msg_id = noted.msg_id and queued.enqueued_at = noted.enqueued_at
                    )',
                    v_table
                ) end
            )
            using v_due.queue_name, v_due.msg_ids;
            get diagnostics v_removed = row_count;
            perform sluice._note_failure('attempts'::text, queue_name, null::text, null::text);
        exception
            -- The table is being changed, or belongs to another role. It must not stop the other queues.
            when others then
                v_removed := 0;
                done := false;
                detail := sqlerrm;
                if sqlstate <> '55P03' then
                    perform sluice._note_failure(
                        'attempts'::text, queue_name, null::text, format('%s (%s)', sqlerrm, sqlstate)
                    );
                end if;
                return next;
        end;
        -- Also where it was given up: the next call must not begin with the same ones.
        update sluice.attempt as noted
        set check_at = v_now + least(
            greatest(v_now - coalesce(noted.first_failed_at, noted.claimed_at), interval '1 minute'), interval '1 day'
        )
        where noted.queue_name = v_due.queue_name and noted.msg_id = any (v_due.msg_ids);
        if v_removed > 0 then
            done := true;
            detail := format('%s records of attempts of messages that are gone removed', v_removed);
            return next;
        end if;
    end loop;
end;
$$;

comment on function sluice._maintain_attempts(integer) is
    'Look at the next records of attempts, at most rows_max, and remove those whose message is gone; one row for each queue that had some, or that is given up for now.';
revoke execute on function sluice._maintain_attempts(integer) from public;
grant execute on function sluice._maintain_attempts(integer) to sluice_admin;
