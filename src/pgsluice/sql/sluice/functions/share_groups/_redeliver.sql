-- A retry counts as an attempt and a delivery, a release as neither. An expired lease counts as an attempt if the claim has a renewal or outcome. If it has
-- none, the claim may never have reached the consumer, and counts as a delivery only. An expiry that counts is recorded as a prefix of the error, for
-- sluice.unfinished_attempts.
--
-- So max_attempts = 1 does not mean one delivery: an expired lease without a renewal or outcome redelivers the event up to max_deliveries (three
-- times max_attempts unless set).
--
-- In a group with keys, an event that is due immediately precedes the later ones of its key, whatever when_waiting is. If it has to wait:
--
--   block  it keeps the key: no event of the key is claimed before the event is due.
--   skip   only this event waits, as a redelivery.
--   park   it is parked, and so are all later events of the key.
create or replace function sluice._redeliver(i_group sluice.share_group, i_now sluice.claim, i_outcome sluice.outcome)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_claim sluice.claim;
    v_event sluice.redelivery;
    v_attempt integer := 1;
    v_delivery integer := 1;
    v_again sluice.redelivery[] := '{}';
    v_of_key record;
    v_before constant text := '; before that: ';
    v_lapsed text;
begin
    -- In group time, and never later than the present: the server's clock may have been set back since. An outcome may have been committed after
    -- claimed_at; its back-off starts at the time of the outcome, that of an expired lease at claimed_at.
    i_outcome.outcome_at := case
        when i_outcome.outcome = 'lapse' then i_now.claimed_at
        else least(
            i_outcome.outcome_at + i_now.clock_shift, greatest(i_now.claimed_at, clock_timestamp() + i_now.clock_shift)
        )
    end;
    select c.* into v_claim from sluice.claim as c where c.group_id = i_group.group_id and c.claim_id = i_outcome.claim_id;
    if i_outcome.outcome = 'release' then
        v_attempt := 0;
        v_delivery := 0;
    elsif i_outcome.outcome = 'lapse' then
        perform
        from sluice.outcome as o
        where o.group_id = i_group.group_id and o.claim_id = i_outcome.claim_id and o.outcome <> 'lapse';
        v_attempt := found::integer;
        if found then
            v_lapsed := 'its lease ended';
        end if;
        for v_event in
            select e.*
            from sluice._claimed_events(i_group, v_claim, i_outcome.ev_ids) as e
            where sluice._is_last(e.attempts + v_attempt, i_group.max_attempts, e.deliveries + 1, i_group.max_deliveries)
        loop
            v_event.attempts := v_event.attempts + v_attempt;
            v_event.deliveries := v_event.deliveries + 1;
            v_event.error := sluice._error_without_expiry(v_event.error);
            perform sluice._dead_letter(i_group, i_outcome.claim_id, array[v_event], 'its lease ended', null::jsonb);
        end loop;
    end if;
    if i_group.key is not null then
        for v_event in
            select e.*
            from sluice._claimed_events(i_group, v_claim, i_outcome.ev_ids) as e
            where i_outcome.outcome <> 'lapse'
               or not sluice._is_last(e.attempts + v_attempt, i_group.max_attempts, e.deliveries + 1, i_group.max_deliveries)
        loop
            v_event.attempts := v_event.attempts + v_attempt;
            v_event.deliveries := v_event.deliveries + v_delivery;
            v_event.error := coalesce(
                i_outcome.error, v_lapsed || coalesce(v_before || sluice._error_without_expiry(v_event.error), ''), v_event.error
            );
            v_event.due_at := i_outcome.outcome_at + coalesce(
                i_outcome.delay, case when i_outcome.outcome = 'retry' then sluice._backoff(i_group, v_event.attempts) else '0' end
            );
            v_again := v_again || v_event;
        end loop;
        perform sluice._write_redelivery(i_now, e)
        from unnest(v_again) as e
        where e.key is null or i_group.when_waiting = 'skip' and e.due_at > i_outcome.outcome_at;

        for v_of_key in
            select e.key, array_agg(e order by e.place) as events, max(e.due_at) as due_at
            from unnest(v_again) as e
            where e.key is not null and not (i_group.when_waiting = 'skip' and e.due_at > i_outcome.outcome_at)
            group by e.key
        loop
            if i_group.when_waiting = 'park'
                and (v_of_key.due_at > i_outcome.outcome_at or sluice._parked_keys(i_group, array[v_of_key.key]) <> '{}')
            then
                perform sluice._dead_letter(i_group, i_outcome.claim_id, v_of_key.events, 'parked', null::jsonb);
            else
                perform sluice._write_returned(sluice._last_turn(i_group.group_id, v_of_key.key), v_of_key.events, v_of_key.due_at);
            end if;
        end loop;
        return;
    end if;
    -- Never before the cursor: see sluice._write_redelivery.
    execute format(
        'insert into sluice.redelivery_%s
         select $1.group_id,
            greatest($2.upto_due, $3.outcome_at + coalesce(
                $3.delay, case when $3.outcome = ''retry'' then sluice._backoff($1, e.attempts + $4) else ''0'' end
            )),
            nextval(''sluice.redelivery_id_seq''), null,
            e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4,
            e.redriven, e.attempts + $4, e.deliveries + $5,
            coalesce($3.error, $7 || coalesce($8 || sluice._error_without_expiry(e.error), ''''), e.error)
         from sluice._claimed_events($1, $6, $3.ev_ids) as e
         where $3.outcome <> ''lapse''
            or not sluice._is_last(e.attempts + $4, $1.max_attempts, e.deliveries + 1, $1.max_deliveries)',
        (select l.number from sluice.ledger as l)
    )
    using i_group, i_now, i_outcome, v_attempt, v_delivery, v_claim, v_lapsed, v_before;
end;
$$;

comment on function sluice._redeliver(sluice.share_group, sluice.claim, sluice.outcome) is
    'Schedule the events of an outcome for redelivery; those whose expired lease was the last attempt or delivery are dead-lettered.';
revoke execute on function sluice._redeliver(sluice.share_group, sluice.claim, sluice.outcome) from public;
grant execute on function sluice._redeliver(sluice.share_group, sluice.claim, sluice.outcome) to pgq_admin, sluice_admin;
