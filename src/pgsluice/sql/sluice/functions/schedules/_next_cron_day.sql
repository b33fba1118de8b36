-- Month by month, and day by day only in matching months. Eight years, because 1900 and 2100 have no 29 February.
create or replace function sluice._next_cron_day(i_cron sluice.cron, i_from date)
returns date
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_months_max constant integer := 12 * 8;
    v_month date := date_trunc('month', i_from::timestamp);
    v_day date;
begin
    for v_number in 0 .. v_months_max loop
        if extract(month from v_month) = any (i_cron.months) then
            select d.day
            into v_day
            from (
                select v_month + n as day
                from generate_series(greatest(i_from - v_month, 0), 30) as n
            ) as d
            cross join lateral (
                select
                    extract(day from d.day) = any (i_cron.days)
                    or i_cron.is_last_day and extract(day from d.day + 1) = 1,
                    extract(dow from d.day) = any (i_cron.weekdays)
            ) as fits (month, week)
            where extract(month from d.day) = extract(month from v_month)
              and case when i_cron.is_either then fits.month or fits.week else fits.month and fits.week end
            order by d.day
            limit 1;
            if found then
                return v_day;
            end if;
        end if;
        v_month := v_month + interval '1 month';
    end loop;
    return null;
end;
$$;

comment on function sluice._next_cron_day(sluice.cron, date) is
    'Return the first day from a day on that matches a cron expression; null: none, such as 30 February.';
revoke execute on function sluice._next_cron_day(sluice.cron, date) from public;
grant execute on function sluice._next_cron_day(sluice.cron, date) to sluice_admin;
