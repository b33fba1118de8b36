/*
 * Keep the newest report of each process, without workers that have ended or were silent for a day, by truncating both tables:
 * a deleted row would stay under a held snapshot. It is due if they need much space and, unless i_ended is null, if a worker ended
 * that long ago, or was silent for a day.
 *
 * It waits for no session: if another one uses the tables, the next call does it.
 */
create or replace function sluice._maintain_processes(i_ended interval)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Some 3,000 reports of workers or 10,000 of pipelines, and four of each worker with many running calls.
    v_bytes_max constant bigint := 1048576;
    v_process_bytes constant bigint := 65536;
    v_bytes constant bigint := pg_table_size('sluice.process') + pg_table_size('sluice.process_report');
    v_reporting sluice.reporting[];
    v_processes sluice.process[];
    v_removed bigint;
begin
    -- Each report calls this, and counting the processes reads all pages of their table. So nearly one report in as many counts them.
    if i_ended is null and v_bytes >= v_bytes_max and random() * (pg_relation_size('sluice.process') / 8192) > 1 then
        return;
    end if;
    if v_bytes < v_bytes_max or v_bytes < v_bytes_max + v_process_bytes * (
        (select count(*) from sluice.process) - (select count(*) from sluice.process_report as r where r.ended_at is not null)
    ) then
        perform
        where i_ended is not null and (
            exists (select from sluice.process_report as r where r.ended_at <= clock_timestamp() - i_ended)
            or exists (
                select
                from sluice.process as p
                where p.queue_id is null
                  and p.started_at < clock_timestamp() - interval '1 day'
                  and not exists (select from sluice.reporting as k where k.process_id = p.process_id)
                  and not exists (
                      select from sluice.process_report as r where r.process_id = p.process_id and r.ended_at is not null
                  )
            )
        );
        if not found then
            return;
        end if;
    end if;
    -- A snapshot older than the lock might not show the newest reports.
    if current_setting('transaction_isolation') <> 'read committed'
        or not pgq._lock_tables(array['sluice.process', 'sluice.process_report']::regclass[], 'access exclusive', 0)
    then
        return;
    end if;
    v_reporting := array(select k from sluice.reporting as k);
    v_processes := array(
        select p from sluice.process as p where p.process_id in (select k.process_id from unnest(v_reporting) as k)
    );
    v_removed := (select count(*) from sluice.process) - cardinality(v_processes);
    truncate sluice.process, sluice.process_report;
    insert into sluice.process select p.* from unnest(v_processes) as p;
    insert into sluice.process_report (
        process_id, reported_at, backend_pid, running, counts, times, slowest, last_commit_at, row_count
    )
    select k.process_id, k.reported_at, k.backend_pid, k.running, k.counts, k.times, k.slowest, k.last_commit_at, k.row_count
    from unnest(v_reporting) as k
    where k.reported_at is not null;
    if v_removed > 0 then
        task := 'processes';
        done := true;
        detail := format('%s workers removed that have ended or were silent for a day', v_removed);
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_processes(interval) is
    'Remove old reports of processes, and workers that have ended or were silent for a day, if one ended i_ended ago or was silent for a day, or if they need much space; null: only for the space. Returns a row if it removed any.';
revoke execute on function sluice._maintain_processes(interval) from public;
grant execute on function sluice._maintain_processes(interval) to sluice_admin;
