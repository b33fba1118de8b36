create or replace function sluice.notifier_age()
returns interval
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_number_bits constant integer := 20; -- as in sluice.notifier_pulse
    v_turn bigint := pg_sequence_last_value('sluice.notifier_turn');
begin
    return clock_timestamp() - to_timestamp((v_turn >> v_number_bits) / 1000.0);
end;
$$;

comment on function sluice.notifier_age() is
    'Return the time since the last poll of a notifier; null if the last one resigned, or none has polled since the server''s last crash.';
revoke execute on function sluice.notifier_age() from public;
grant execute on function sluice.notifier_age() to sluice_admin, sluice_reader, sluice_monitor;
