create or replace function sluice._maintain_workers()
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_silence_max constant interval := '1 day';
    -- Workers that end are many where each runs a few messages.
    v_ended_max constant interval := '1 hour';
    v_removed bigint;
begin
    perform
    where exists (select from sluice.worker_report as r where r.ended_at < v_now - v_ended_max)
        or exists (
            select
            from sluice.worker as w
            where w.started_at < v_now - v_silence_max
              and (
                  select r.reported_at
                  from sluice.worker_report as r
                  where r.worker_id = w.worker_id
                  order by r.report_id desc
                  limit 1
              ) < v_now - v_silence_max
        );
    if not found then
        return;
    end if;
    v_removed := sluice._compact_workers(true);
    if v_removed > 0 then
        task := 'workers';
        done := true;
        detail := format('%s workers removed that have ended or were silent for a day', v_removed);
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_workers() is
    'Remove worker processes that were silent for a day, and those that have ended; returns a row if it removed any.';
revoke execute on function sluice._maintain_workers() from public;
grant execute on function sluice._maintain_workers() to sluice_admin;
