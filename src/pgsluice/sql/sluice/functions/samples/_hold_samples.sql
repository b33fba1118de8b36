-- Security definer: the caller may not lock the table.
create or replace function sluice._hold_samples(i_at timestamptz)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._lock_tables(array['sluice.sample']::regclass[], 'share update exclusive'::text, 0) then
        return false;
    end if;
    perform setval('sluice.sample_turn', (extract(epoch from i_at) * 1000)::bigint);
    return true;
end;
$$;

comment on function sluice._hold_samples(timestamptz) is
    'Lock the samples until the end of the transaction; false if another session takes samples.';
revoke execute on function sluice._hold_samples(timestamptz) from public;
grant execute on function sluice._hold_samples(timestamptz) to sluice_admin;
