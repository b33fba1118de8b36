create or replace function sluice._backoff(
    i_backoff text, i_base interval, i_factor double precision, i_cap interval, i_jitter boolean, i_attempts integer
)
returns interval
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_times double precision := case i_backoff
        when 'constant' then 1
        when 'linear' then i_attempts
        -- Bounded by e^600, which can be multiplied by the seconds of an interval; unbounded if the factor is 1.
        when 'exponential' then power(i_factor, least((i_attempts - 1)::double precision, 600 / nullif(ln(i_factor), 0)))
    end;
    v_pause interval := i_cap;
begin
    -- Compared before the multiplication, whose result may exceed the range of interval.
    if v_times * extract(epoch from i_base) < extract(epoch from i_cap) then
        v_pause := i_base * v_times;
    end if;
    -- Between half and all of it, so that messages that failed together are not retried together.
    return case when i_jitter then v_pause * (1 - random() / 2) else v_pause end;
end;
$$;

comment on function sluice._backoff(text, interval, double precision, interval, boolean, integer) is
    'Return the back-off after this number of attempts, 1 or more.';
revoke execute on function sluice._backoff(text, interval, double precision, interval, boolean, integer) from public;
grant execute on function sluice._backoff(text, interval, double precision, interval, boolean, integer) to pgq_admin, sluice_admin, sluice_reader;

create or replace function sluice._backoff(i_group sluice.share_group, i_attempts integer)
returns interval
language sql
set search_path = pg_catalog, pg_temp
as $$
    select sluice._backoff(
        i_group.backoff, i_group.backoff_base, 2::double precision, i_group.backoff_max, i_group.backoff_jitter, i_attempts
    );
$$;

comment on function sluice._backoff(sluice.share_group, integer) is
    'Return the back-off of a share group after this number of attempts, 1 or more.';
revoke execute on function sluice._backoff(sluice.share_group, integer) from public;
grant execute on function sluice._backoff(sluice.share_group, integer) to pgq_admin, sluice_admin;
