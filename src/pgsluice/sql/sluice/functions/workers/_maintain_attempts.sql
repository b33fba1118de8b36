/*
 * Deleting or archiving a message does not touch this table, because most messages have no row. So a row is checked a minute
 * after it was written, and again after as much time as has passed since the first failure, at most a day: a row outlives
 * its message by no more than the message's lifetime, and a million pending retries are not checked again and again.
 *
 * Locked rows are skipped, because another session counts an attempt or removes them, so any number of calls run
 * concurrently. A deleted message does not return with its id and enqueued_at.
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
            -- The table is being altered, or belongs to another role. It must not stop the other queues.
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
        -- Also for skipped queues: the next call must not start with the same rows.
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
    'Check the next records of attempts, at most rows_max, and remove those of deleted messages; returns a row per queue with removed records, or skipped for now.';
revoke execute on function sluice._maintain_attempts(integer) from public;
grant execute on function sluice._maintain_attempts(integer) to sluice_admin;
