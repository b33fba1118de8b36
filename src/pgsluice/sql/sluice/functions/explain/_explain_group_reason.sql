-- Up to ten open claims and ten blocked keys. Reads the lock of the group as sluice._wait_for_lock does.
create or replace function sluice._explain_group_reason(i_group sluice.share_group, i_claim sluice.claim, i_lag_events bigint, i_may_read boolean)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1936221042;
    v_shown_max constant integer := 10;
    v_reasons bigint := 0;
    v_found bigint;
begin
    if i_group.lost is not null then
        return query values (null::timestamptz, format('Its position was given up: %s', i_group.lost), '{"cause": "position lost"}'::jsonb);
        return;
    end if;
    return query
        select null::timestamptz, format('Claims wait for the open transaction of %s, which holds the share group', sluice._session(k.pid)),
            jsonb_build_object('cause', 'group locked', 'pid', k.pid)
        from sluice.lock as l
        join pg_locks as k on k.locktype = 'transactionid' and k.transactionid = l.xmax and k.mode = 'ExclusiveLock' and k.granted
        where l.class = v_lock_class and l.id = i_group.group_id and k.pid <> pg_backend_pid();
    get diagnostics v_found = row_count;
    v_reasons := v_reasons + v_found;
    return query
        select c.lease_until,
            format(
                'Claim %s holds %s%s; its lease %s', c.claim_id, sluice._counted((c.events - c.settled)::bigint, 'event'),
                case when c.renewals > 0 then ' and was renewed' end,
                case when c.lease_until > clock_timestamp() then 'ends' else 'expired, and the next claim redelivers them' end
            ),
            jsonb_build_object(
                'cause', case when c.lease_until > clock_timestamp() then 'lease' else 'expired lease' end,
                'claim_id', c.claim_id, 'claimed_at', c.claimed_at, 'events', c.events, 'settled', c.settled
            )
        from sluice.list_claims(i_group.queue_name, i_group.group_name) as c
        order by c.claim_id
        limit v_shown_max;
    if i_group.key is not null then
        return query
            select case b.reason when 'retrying' then b.due_at else b.since end,
                format(
                    '%s of %s %s', sluice._counted(b.waiting, 'event'), case when i_may_read then format('key %L', b.key) else 'a key' end,
                    case b.reason
                        when 'claimed' then format('wait behind claim %s, since', b.claim_id)
                        when 'retrying' then format('wait behind event %s, which is redelivered', b.ev_id)
                        else format('are parked behind event %s, since', b.ev_id)
                    end
                ),
                jsonb_build_object(
                    'cause', 'key ' || b.reason, 'key', case when i_may_read then b.key end, 'waiting', b.waiting, 'ev_id', b.ev_id,
                    'command', case
                        when b.reason = 'parked' and i_may_read then format(
                            'pgsluice group unpark %s %s %s', sluice._shell_word(i_group.queue_name), sluice._shell_word(i_group.group_name),
                            sluice._shell_word(b.key)
                        )
                    end
                )
            from sluice.list_blocked_keys(i_group.queue_name, i_group.group_name) as b
            limit v_shown_max;
        get diagnostics v_found = row_count;
        v_reasons := v_reasons + v_found;
    end if;
    if i_lag_events = 0 then
        return query values (null::timestamptz, 'It has claimed all events of the log', '{"cause": "up to date"}'::jsonb);
    elsif v_reasons = 0 then
        return query select w.* from sluice._explain_workers(format('log %s group %s', i_group.queue_name, i_group.group_name)) as w;
    end if;
end;
$$;

comment on function sluice._explain_group_reason(sluice.share_group, sluice.claim, bigint, boolean) is
    'Return the reasons why events of a share group are not claimed; the detail has the cause.';
revoke execute on function sluice._explain_group_reason(sluice.share_group, sluice.claim, bigint, boolean) from public;
grant execute on function sluice._explain_group_reason(sluice.share_group, sluice.claim, bigint, boolean) to pgq_admin, sluice_admin;
