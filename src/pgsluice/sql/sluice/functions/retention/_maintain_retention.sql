/*
 * Deletes expired archived messages, at most rows_max in all: each call is short, a backlog takes several.
 *
 * Queues are processed in random order: in a fixed order, a queue that fills its archive as fast as this empties it would
 * be the only one served. Locked rows are skipped, and a table that another session alters is left to the next call, so
 * any number of calls run concurrently without waiting. Each archive has its subtransaction, so that a failure does not
 * stop the others. Of an exported archive only rows that every export has verified are deleted, however old they are.
 *
 * Calls: sluice.drop_exported, pgmq._require_no_foreign_code. Reads: sluice.queue_settings, sluice.export, the archives by their index on
 * archived_at. Writes: the archives.
 */
create or replace function sluice._maintain_retention(rows_max integer default 10000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
    v_rule record;
    v_rows_left bigint := rows_max;
    v_deleted bigint;
    -- Each is locked with some eight indexes, partitions and sequences.
    v_archives_max constant integer := greatest(sluice._lock_slots() / 4 / 8, 2);
    v_archives integer := 0;
    v_is_exported boolean;
    v_expired_before timestamptz;
begin
    task := 'retention';
    for v_rule in
        select r.queue_name, r.archive_retention
        from sluice.queue_settings as r
        where r.archive_retention is not null
        order by random()
    loop
        exit when v_rows_left <= 0 or v_archives = v_archives_max;
        queue_name := v_rule.queue_name;
        v_expired_before := clock_timestamp() - v_rule.archive_retention;
        begin
            -- Triggers of an archive that another role owns would run with the rights of the caller.
            perform pgmq._require_no_foreign_code(to_regclass(format('pgmq.%I', lower('a_' || v_rule.queue_name))));
            v_is_exported := exists (select from sluice.export as e where e.queue_name = v_rule.queue_name);
            if v_is_exported then
                v_deleted := sluice.drop_exported(v_rule.queue_name::text, v_rows_left, v_expired_before);
            else
                -- An array, because a join with an unknown number of ids would scan the whole table. The time is repeated so
                -- that only old partitions of an archive are read.
                execute format(
                    'delete from pgmq.%1$I as archived
                     where archived.archived_at < $1
                       and archived.msg_id = any (array(
                           select expired.msg_id
                           from pgmq.%1$I as expired
                           where expired.archived_at < $1
                           order by expired.archived_at
                           limit $2
                           for update skip locked
                       ))',
                    lower('a_' || v_rule.queue_name)
                )
                using v_expired_before, v_rows_left;
                get diagnostics v_deleted = row_count;
            end if;
            if v_deleted = 0 and not v_is_exported then
                -- The rollback releases the locks: one transaction could not hold those of thousands of queues.
                raise sqlstate 'RL000';
            end if;
        exception
            when sqlstate 'RL000' then
                perform sluice._note_failure('retention'::text, queue_name, null::text, null::text);
                continue;
            when lock_not_available or deadlock_detected then
                done := false;
                detail := 'the archive is in use; the next call tries again';
                return next;
                continue;
            -- For example a manual change, a trigger, or a missing privilege. It must not stop the other queues.
            when others then
                done := false;
                detail := sqlerrm;
                perform sluice._note_failure('retention'::text, queue_name, null::text, format('%s (%s)', sqlerrm, sqlstate));
                return next;
                continue;
        end;
        v_archives := v_archives + 1;
        perform sluice._note_failure('retention'::text, queue_name, null::text, null::text);
        if v_deleted > 0 then
            done := true;
            detail := format(
                '%s archived messages deleted%s', v_deleted,
                case when v_deleted >= v_rows_left then '; the next call goes on' end
            );
            v_rows_left := v_rows_left - v_deleted;
            return next;
        end if;
    end loop;
end;
$$;

comment on function sluice._maintain_retention(integer) is
    'Delete archived messages beyond their queue''s retention, at most rows_max; returns a row per queue with deleted messages, or skipped for now.';
revoke execute on function sluice._maintain_retention(integer) from public;
grant execute on function sluice._maintain_retention(integer) to sluice_admin;
