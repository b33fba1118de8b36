/*
 * Leader election: one process at a time does the work of a role, so that the others need not. The role maintenance runs the
 * maintenance of the database, the role notifier wakes listeners.
 *
 * It saves work and is no lock: two leaders at a time are harmless. The leader is the candidate that called this last, if that
 * was within its lease; each calls it more often than that. If it called in a session that has ended, half of the lease is
 * enough. The role belongs to no session, so it works through a pooler in transaction mode. A sequence has the last call: no
 * transaction id, no WAL, no dead row under a held snapshot, and a call by a candidate that does not lead only reads. After a
 * crash of the server there is no leader, and the first candidate becomes it.
 *
 * Of two candidates that find the lease over at the same time, the later one leads, and the other one notices at its next call.
 *
 * Calls: sluice.leader. Writes: the sequence of the role, outside of the transaction.
 */
create or replace function sluice.lead(role text, candidate integer, lease interval)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_number_bits constant integer := 22; -- as in sluice.leader
    v_is_session constant integer := case when candidate = pg_backend_pid() then 1 else 0 end;
    v_age interval;
    t record;
begin
    select l.* into t from sluice.leader(role) as l;
    v_age := clock_timestamp() - t.called_at;
    -- A call in the future is that of another clock, before a failover.
    if t.candidate <> candidate and v_age >= '0' and v_age < lease
        and not (
            t.is_session and v_age > lease / 2 and not exists (select from pg_stat_activity as a where a.pid = t.candidate)
        )
    then
        return false;
    end if;
    perform setval(
        format('sluice.%I', role || '_turn')::regclass,
        (floor(extract(epoch from clock_timestamp()) * 100)::bigint << (v_number_bits + 1)) | (v_is_session << v_number_bits) | candidate
    );
    return (select l.candidate = lead.candidate from sluice.leader(role) as l);
end;
$$;

comment on function sluice.lead(text, integer, interval) is
    'Become or stay the leader of a role, maintenance or notifier, unless another candidate called this within the lease. candidate is a number from 0 to 4194303: in a session without a pooler, its backend pid.';
revoke execute on function sluice.lead(text, integer, interval) from public;
grant execute on function sluice.lead(text, integer, interval) to sluice_admin, sluice_reader;
