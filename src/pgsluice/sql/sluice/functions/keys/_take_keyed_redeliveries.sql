-- For claims that store their events: those of groups with keys, and of members that do not handle all types.
create or replace function sluice._take_keyed_redeliveries(
    i_group sluice.share_group, i_qty integer, i_types text[], i_is_except boolean, inout claim sluice.claim, out is_news boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_looks_max constant integer := 1000; -- per call; the next one continues
    v_next sluice.redelivery;
    v_turn sluice.key_turn;
begin
    is_news := false;
    for v_look in 1 .. v_looks_max
    loop
        exit when claim.redeliveries >= i_qty;
        -- One at a time, because each may add others that are due now.
        select r.*
        into v_next
        from sluice.redelivery as r
        where r.group_id = i_group.group_id
          and (r.due_at, r.redelivery_id) > (claim.upto_due, claim.upto_redelivery)
          and r.due_at <= claim.claimed_at
        order by r.due_at, r.redelivery_id
        limit 1;
        exit when not found;
        is_news := true;
        claim.upto_due := v_next.due_at;
        claim.upto_redelivery := v_next.redelivery_id;
        if v_next.look_at is not null then
            perform sluice._expire_lease(i_group, claim, v_next.look_at, coalesce(v_next.attempts, 0));
            continue;
        elsif v_next.ev_id is not null and v_next.key is null then
            v_next.place := coalesce(v_next.place, nextval('sluice.key_place_seq'));
            if (coalesce(v_next.ev_type, '') = any (i_types)) = i_is_except then
                claim := sluice._leave(array[v_next], claim);
            else
                perform sluice._write_key_events(claim.claim_id, array[v_next]);
                claim.redeliveries := claim.redeliveries + 1;
            end if;
            continue;
        elsif v_next.ev_id is not null then
            v_turn := sluice._last_turn(i_group.group_id, v_next.key);
            perform sluice._write_returned(v_turn, array[v_next], '-infinity'::timestamptz);
            -- If others wait already, the time to check the key is stored.
            continue when v_turn.waiting > 0 or v_turn.returned <> '{}';
        end if;
        claim := sluice._take_key(i_group, i_qty, i_types, i_is_except, v_next.key, claim);
    end loop;
end;
$$;

comment on function sluice._take_keyed_redeliveries(sluice.share_group, integer, text[], boolean, sluice.claim) is
    'Take the due redeliveries of a share group one by one, and the waiting events of keys that are free again; those of other types are left.';
revoke execute on function sluice._take_keyed_redeliveries(sluice.share_group, integer, text[], boolean, sluice.claim) from public;
grant execute on function sluice._take_keyed_redeliveries(sluice.share_group, integer, text[], boolean, sluice.claim) to pgq_admin, sluice_admin;
