-- The value of the sequence: hundredths of a second since 1970; 1 bit, set if the candidate is the pid of the session that called;
-- and 22 bits for the candidate, enough for a pid.
create or replace function sluice._turn(i_role text, out candidate integer, out is_session boolean, out called_at timestamptz)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_number_bits constant integer := 22;
    v_turn bigint := pg_sequence_last_value(format('sluice.%I', i_role || '_turn')::regclass);
begin
    candidate := v_turn & ((1 << v_number_bits) - 1);
    is_session := v_turn >> v_number_bits & 1 = 1;
    called_at := to_timestamp((v_turn >> (v_number_bits + 1)) / 100.0);
end;
$$;

comment on function sluice._turn(text) is
    'Return the candidate that last called sluice.lead for a role, and when; null if there is none, or it resigned.';
revoke execute on function sluice._turn(text) from public;
grant execute on function sluice._turn(text) to pgq_admin, sluice_admin, sluice_monitor, sluice_reader;
