-- Calls: sluice._explain_claims, sluice._explain_poison, sluice._explain_failures, sluice._explain_workers. Reads: sluice.parked_key.
create or replace function sluice._explain_queue_reason(i_queue_name text, i_counts jsonb, i_may_read boolean)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    c record;
    v_reasons bigint;
begin
    select r.*
    into c
    from jsonb_to_record(i_counts) as r (
        length bigint, visible bigint, in_flight bigint, waiting bigint, delayed bigint, lease_until timestamptz, due_at timestamptz,
        expired bigint, expired_since timestamptz
    );
    return query select r.* from sluice._explain_claims(i_queue_name) as r;
    get diagnostics v_reasons = row_count;
    return query select p.* from sluice._explain_poison(i_queue_name, null::bigint) as p;
    if c.length = 0 then
        return query values (null::timestamptz, 'There is no message to claim', '{"cause": "empty"}'::jsonb);
    elsif c.visible = 0 then
        return query values (
            null::timestamptz,
            case
                when c.waiting + c.delayed = 0 then 'No message is visible: all are in flight'
                else 'No message is visible: they are in flight, delayed or wait for a retry'
            end,
            '{"cause": "none visible"}'::jsonb
        );
    end if;
    if c.expired > 0 then
        return query values (
            c.expired_since,
            format('%s expired without an outcome, the first', sluice._counted(c.expired, 'lease')),
            jsonb_build_object('cause', 'expired leases', 'expired', c.expired)
        );
    end if;
    return query
        select min(p.parked_at), format('%s parked, the first', sluice._counted(count(*), 'key')),
            jsonb_build_object('cause', 'key parked', 'parked', count(*), 'command', format('pgsluice queue blocked %s', sluice._shell_word(i_queue_name)))
        from (
            select p.parked_at
            from sluice.queue_settings as l
            join sluice.parked_key as p on p.limits_id = l.limits_id
            where l.queue_table = pgmq.format_table_name(i_queue_name, 'q')
            limit 1000
        ) as p
        having count(*) > 0;
    return query select f.* from sluice._explain_failures(i_queue_name, null::text, i_may_read) as f;
    if c.visible > 0 and v_reasons = 0 then
        return query select w.* from sluice._explain_workers('queue ' || i_queue_name) as w;
    end if;
end;
$$;

comment on function sluice._explain_queue_reason(text, jsonb, boolean) is
    'Return the reasons why messages of a queue are not claimed; the detail has the cause.';
revoke execute on function sluice._explain_queue_reason(text, jsonb, boolean) from public;
grant execute on function sluice._explain_queue_reason(text, jsonb, boolean) to sluice_admin;
