/*
 * The group clock. A group finds expired leases and due redeliveries by their position in the order of time, and reads behind a cursor. A row written before
 * the cursor would never be read, and the server's clock can step back. So a group has its own clock: the server's clock plus clock_shift, which grows by
 * the size of each step back. Group time never decreases, and advances as fast as the server's clock. When the clock steps forward and back by a day,
 * leases expire early once, and later leases, retries and renewals last as long as they should.
 *
 * claimed_at is taken under the lock of the group, and is the present for everything that the claim does. So a claim reads nothing later than the time from
 * which the next one starts.
 *
 * The number of a claim is its time in microseconds. No number is used twice, not even that of a claim that a crash or a rollback has undone: its consumer could
 * settle events of another claim. A crash undoes the asynchronous commits of the last moments (three times wal_writer_delay), so the group clock skips a second at
 * each step back.
 *
 * sluice.claim repeats these statements.
 */
create or replace function sluice._next_claim(i_last sluice.claim)
returns sluice.claim
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    if v_now + i_last.clock_shift < i_last.claimed_at then
        -- Without days, which are not all of 24 hours.
        i_last.clock_shift := make_interval(secs => (extract(epoch from i_last.claimed_at - v_now) + 1)::double precision);
    end if;
    i_last.claimed_at := v_now + i_last.clock_shift;
    i_last.claim_id := greatest(i_last.claim_id + 1, (extract(epoch from i_last.claimed_at) * 1000000)::bigint);
    i_last.lease_until := null;
    i_last.from_ev_id := i_last.upto_ev_id;
    i_last.events := 0;
    i_last.from_due := i_last.upto_due;
    i_last.from_redelivery := i_last.upto_redelivery;
    i_last.redeliveries := 0;
    i_last.is_stored := false;
    return i_last;
end;
$$;

comment on function sluice._next_claim(sluice.claim) is
    'Return an empty claim to follow the newest one.';
revoke execute on function sluice._next_claim(sluice.claim) from public;
grant execute on function sluice._next_claim(sluice.claim) to pgq_admin, sluice_admin;
