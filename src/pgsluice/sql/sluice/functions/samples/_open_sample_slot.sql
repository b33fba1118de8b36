/*
 * Return the partition to write samples to, emptied if it has those of an earlier period. While a session uses that partition,
 * or pg_dump runs, the previous one is written to: no call waits.
 *
 * Security definer: sampling may truncate these tables, the caller may not.
 */
create or replace function sluice._open_sample_slot(i_resolution integer, i_at timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_slot record;
    v_table text;
    v_oldest timestamptz;
begin
    select s.slot, s.starts_at into v_slot from sluice._sample_slot(i_resolution, i_at) as s;
    v_table := format('sluice.sample_%s', v_slot.slot);
    -- The first row of the file is the oldest.
    execute format('select s.taken_at from %s as s limit 1', v_table) into v_oldest;
    if v_oldest is null or v_oldest >= v_slot.starts_at and v_oldest <= i_at + interval '1 day' then
        return v_slot.slot;
    end if;
    if not pgq._lock_tables(array[v_table]::regclass[], 'access exclusive'::text, 0) then
        return 3 * i_resolution + (v_slot.slot + 2) % 3;
    end if;
    execute format('truncate %s', v_table);
    return v_slot.slot;
end;
$$;

comment on function sluice._open_sample_slot(integer, timestamptz) is
    'Return the partition for new samples of a resolution, emptied if its turn has come.';
revoke execute on function sluice._open_sample_slot(integer, timestamptz) from public;
grant execute on function sluice._open_sample_slot(integer, timestamptz) to sluice_admin;
