/*
 * Deletes archived messages whose time is over, at most rows_max in all: each call is short, a backlog takes several.
 *
 * Queues in random order: in a fixed one, a queue that fills its archive as fast as this empties it would be the only
 * one served. Rows that another session holds are skipped, so any number of these may run at once, and none waits.
 *
 * Calls: pgmq.format_table_name. Reads: sluice.retention, the archives by their index on archived_at. Writes: these.
 */
create or replace function sluice._maintain_retention(rows_max integer default 10000)
returns table (queue_name text, deleted bigint, more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rule record;
    v_rows_left bigint := rows_max;
    v_expired_before timestamptz;
begin
    for v_rule in
        select r.queue_name, r.archive_retention
        from sluice.retention as r
        order by random()
    loop
        exit when v_rows_left <= 0;
        v_expired_before := clock_timestamp() - v_rule.archive_retention;
        -- A queue dropped at this moment, or broken by hand, must not stop the others.
        begin
            -- As an array: joined, their number unknown to the planner, it would read the whole table. The time once
            -- more, so that only the old partitions of an archive are looked at.
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
                pgmq.format_table_name(v_rule.queue_name, 'a')
            )
            using v_expired_before, v_rows_left;
            get diagnostics deleted = row_count;
        exception
            when undefined_table then
                raise warning 'queue % has no archive and is left out', v_rule.queue_name;
                continue;
        end;
        if deleted > 0 then
            queue_name := v_rule.queue_name;
            more := deleted >= v_rows_left;
            v_rows_left := v_rows_left - deleted;
            return next;
        end if;
    end loop;
end;
$$;

comment on function sluice._maintain_retention(integer) is
    'Delete archived messages beyond their queue''s retention, at most rows_max; one row per queue that had some, more when the call ended there.';
revoke execute on function sluice._maintain_retention(integer) from public;
grant execute on function sluice._maintain_retention(integer) to sluice_admin;
