/*
 * Keep the newest report of each worker, without those that have ended or were silent for a day, by truncating both tables:
 * a deleted row would stay under a held snapshot.
 *
 * It waits for no session: if another one uses the tables, the next call does it.
 */
create or replace function sluice._compact_workers(i_is_due boolean)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Some 3,000 reports, and four of each worker with many running calls.
    v_bytes_max constant bigint := 1048576;
    v_worker_bytes constant bigint := 65536;
    v_silence_max constant interval := '1 day';
    v_bytes bigint;
    v_workers sluice.worker[];
    v_reports sluice.worker_report[];
    v_before bigint;
begin
    if not i_is_due then
        v_bytes := pg_table_size('sluice.worker') + pg_table_size('sluice.worker_report');
        if v_bytes < v_bytes_max then
            return 0;
        end if;
        v_before := (select count(*) from sluice.worker as w)
            - (select count(*) from sluice.worker_report as r where r.ended_at is not null);
        if v_bytes < v_bytes_max + v_before * v_worker_bytes then
            return 0;
        end if;
    end if;
    -- A snapshot older than the lock might not show the newest reports.
    if current_setting('transaction_isolation') <> 'read committed'
        or not pgq._lock_tables(array['sluice.worker', 'sluice.worker_report']::regclass[], 'access exclusive', 0)
    then
        return 0;
    end if;
    v_before := (select count(*) from sluice.worker as w);
    v_reports := array(
        select newest
        from sluice.worker as w
        cross join lateral (
            select r.*
            from sluice.worker_report as r
            where r.worker_id = w.worker_id
            order by r.report_id desc
            limit 1
        ) as newest
        where newest.ended_at is null and newest.reported_at > clock_timestamp() - v_silence_max
    );
    v_workers := array(
        select w from sluice.worker as w where w.worker_id in (select k.worker_id from unnest(v_reports) as k)
    );
    truncate sluice.worker, sluice.worker_report;
    insert into sluice.worker select w.* from unnest(v_workers) as w;
    insert into sluice.worker_report (worker_id, reported_at, backend_pid, running, counts)
    select r.worker_id, r.reported_at, r.backend_pid, r.running, r.counts from unnest(v_reports) as r;
    return v_before - cardinality(v_workers);
end;
$$;

comment on function sluice._compact_workers(boolean) is
    'Remove old reports of workers, and workers that have ended or were silent for a day, if it is due or the reports need much space; returns the number of workers removed.';
revoke execute on function sluice._compact_workers(boolean) from public;
grant execute on function sluice._compact_workers(boolean) to sluice_admin;
