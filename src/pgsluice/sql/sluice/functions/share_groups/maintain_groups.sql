-- Does the maintenance that claims do, for groups without claims: leases expire there too, consumers acknowledge, and rotation needs the group's position. It
-- also notifies the sessions that wait for a claim when a redelivery is due.
--
-- A group that is being claimed from does not need it. So its lock is only tried, and only if there is something to do: a row lock is a write.
create or replace function sluice.maintain_groups(
    inout log_name text default null, out group_name text, out action text, out reason text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_lock_class constant integer := 1936221042; -- the lock of sluice.claim
    v_group sluice.share_group;
    v_last sluice.claim;
    v_claim sluice.claim;
    v_step record;
    v_is_news boolean;
    v_is_checked boolean;
    -- Maintaining a group locks about 25 tables, indexes and sequences of its log. If there are many groups, each call maintains a random part.
    v_works_max constant integer := greatest(sluice._lock_slots() / 4 / 25, 1);
    v_works integer := 0;
    v_failed integer[]; -- groups that failed at their last attempt
    v_is_many constant boolean := (select count(*) from sluice.share_group as g) > v_works_max;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'SG004',
            message = format('cannot maintain share groups in a %s transaction', current_setting('transaction_isolation')),
            detail = 'It may not see the last claims.',
            hint = 'run the maintenance in a READ COMMITTED transaction';
    end if;
    if log_name is not null then
        perform pgq._require_log(log_name);
    end if;
    v_failed := array(
        select g.group_id
        from sluice.failure as f
        join sluice.share_group as g on g.log_name = f.queue_name and g.group_name = f.group_name
        where f.task = 'groups'
    );
    for v_group in
        select g.*
        from sluice.share_group as g
        join pgq.queue as q on q.queue_id = g.queue_id
        where (maintain_groups.log_name is null or q.queue_name = maintain_groups.log_name)
          and g.lost is null
        order by case when v_is_many then random() end, q.queue_name, g.group_name
    loop
        log_name := (select q.queue_name from pgq.queue as q where q.queue_id = v_group.queue_id);
        group_name := v_group.group_name;
        if pgq._is_restored(v_group.queue_id) then
            action := 'kept';
            reason := 'its log was restored from a dump and not repaired; call sluice.after_restore()';
            return next;
            continue;
        end if;
        exit when v_works = v_works_max;
        -- An error in one group must not stop the others.
        begin
            v_last := sluice._last_claim(v_group.group_id);
            perform sluice._expire_types(v_group, v_last);
            v_claim := sluice._next_claim(v_last);
            if v_claim.claimed_at < v_last.look_at
                and v_claim.clock_shift = v_last.clock_shift
                and v_last.open_claim = v_last.claim_id
                and v_last.lease_until is null
                and not exists (
                    select
                    from sluice.outcome as o
                    where o.group_id = v_group.group_id and o.is_backlog and o.outcome_txid >= pg_snapshot_xmin(v_last.backlog_snapshot)
                )
            then
                perform sluice._wake_for_redeliveries(v_group, v_claim);
                if v_group.group_id = any (v_failed) then
                    perform sluice._note_failure('groups'::text, log_name, group_name, null::text);
                end if;
                continue;
            end if;
            v_works := v_works + 1;
            if not sluice._try_lock(v_lock_class, v_group.group_id) then
                action := 'kept';
                reason := 'it is being claimed from';
                return next;
                continue;
            end if;
            -- Separate statements after the lock.
            v_last := sluice._last_claim(v_group.group_id);
            perform from sluice.share_group as g where g.group_id = v_group.group_id and g.lost is null;
            continue when not found; -- dropped or given up just now

            v_claim := sluice._next_claim(v_last);
            v_is_news := v_claim.clock_shift <> v_last.clock_shift; -- store the shift, or group time would stand still
            reason := null;
            v_step := sluice._read_outcomes(v_group, v_claim);
            v_claim := v_step.claim;
            if v_step.is_news then
                v_is_news := true;
                action := 'backlog read';
                return next;
            end if;
            if v_is_news or v_claim.claimed_at >= v_claim.look_at then
                v_step := sluice._expire_leases(v_group, v_claim);
                v_claim := v_step.claim;
                v_is_checked := sluice._check_renewed_leases(v_group, v_claim);
                v_claim.look_at := sluice._next_look(v_claim, v_step.is_busy);
                if v_step.is_news or v_step.is_busy or v_is_checked then
                    v_is_news := true;
                    action := 'leases checked';
                    return next;
                end if;
            end if;
            -- If the last claim row is empty and no claim before it is open, the position has not changed since it was written.
            if v_is_news or v_last.open_claim < v_last.claim_id or v_last.lease_until is not null then
                v_step := sluice._move_group(v_group, v_claim);
                v_claim := v_step.claim;
                v_is_news := v_is_news or v_claim.open_claim > v_last.open_claim;
                if v_step.is_news then
                    action := 'moved';
                    return next;
                end if;
            end if;
            if v_is_news then
                perform sluice._write_claim(v_claim);
            end if;
            perform sluice._wake_for_redeliveries(v_group, v_claim);
            if v_group.group_id = any (v_failed) then
                perform sluice._note_failure('groups'::text, log_name, group_name, null::text);
            end if;
        exception
            when others then
                perform sluice._note_failure('groups'::text, log_name, group_name, format('%s (%s)', sqlerrm, sqlstate));
                action := 'failed';
                reason := format('%s (%s)', sqlerrm, sqlstate);
                return next;
        end;
    end loop;

    -- The ledgers of all groups.
    log_name := null;
    group_name := null;
    begin
        select l.action, l.reason into action, reason from sluice._maintain_ledgers(8388608::bigint) as l;
        perform sluice._note_failure('sluice._maintain_ledgers'::text, null::text, null::text, null::text);
    exception
        when others then
            perform sluice._note_failure(
                'sluice._maintain_ledgers'::text, null::text, null::text, format('%s (%s)', sqlerrm, sqlstate)
            );
            action := 'failed';
            reason := format('%s (%s)', sqlerrm, sqlstate);
    end;
    if action is not null then
        return next;
    end if;
end;
$$;

comment on function sluice.maintain_groups(text) is
    'Maintain the share groups of one event log or all: acknowledgement backlog, expired leases, positions, and the shared ledgers. Returns the actions, and the reasons for those that were not possible.';
revoke execute on function sluice.maintain_groups(text) from public;
grant execute on function sluice.maintain_groups(text) to pgq_admin, sluice_admin;
