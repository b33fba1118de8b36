-- The value of the sequence: hundredths of a second since 1970; 1 bit, set if the candidate is the pid of the session that called;
-- and 22 bits for the candidate, enough for a pid. Maintenance by pg_cron, or by a ticker of its own, has no leader.
--
-- Security definer: roles that may ask may not read the sequence.
create or replace function sluice.leader(
    role text, out candidate integer, out is_session boolean, out called_at timestamptz, out is_active boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_number_bits constant integer := 22;
    v_active_max constant interval := '6 seconds'; -- twice the lease: see worker/upkeep/leader.py
    v_turn bigint := pg_sequence_last_value(format('sluice.%I', role || '_turn')::regclass);
begin
    candidate := v_turn & ((1 << v_number_bits) - 1);
    is_session := v_turn >> v_number_bits & 1 = 1;
    called_at := to_timestamp((v_turn >> (v_number_bits + 1)) / 100.0);
    is_active := coalesce(called_at > clock_timestamp() - v_active_max, false);
end;
$$;

comment on function sluice.leader(text) is
    'Return the last leader of a role: its candidate, true if that is the pid of its session, the time of its last call, and true if that is at most six seconds ago. Null if the last one resigned, or none has called since the server''s last crash. The roles are maintenance and notifier.';
revoke execute on function sluice.leader(text) from public;
grant execute on function sluice.leader(text) to pgq_admin, sluice_admin, sluice_monitor, sluice_reader;
