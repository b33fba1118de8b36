-- Deduplicates side effects by an idempotency key. A concurrent transaction with the same key waits here for the end of the
-- first, and then learns whether it was done.
--
-- Security definer: a key that another role recorded is an error and not "done", so no role can suppress the work of another.
--
-- Writes: sluice.inbox.
create or replace function sluice.once(handler text, key text, keep interval default '7 days')
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Both are in one index entry, which is limited to about 2,700 bytes.
    v_bytes_max constant integer := 1024;
    v_now timestamptz := clock_timestamp();
    v_name text;
    v_bytes integer;
    v_owned_by regrole;
begin
    if handler is null or key is null or keep is null then
        raise exception using
            errcode = '22004',
            message = 'handler, key or keep is null',
            hint = 'pass the handler, the idempotency key, and the time to keep it';
    end if;
    select a.name, octet_length(a.value)
    into v_name, v_bytes
    from (values ('handler', handler), ('key', key)) as a (name, value)
    where octet_length(a.value) not between 1 and v_bytes_max;
    if found then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('%s has %s bytes', v_name, v_bytes),
            hint = format('use 1 to %s bytes, and a hash of longer ones', v_bytes_max);
    end if;
    if keep <= interval '0' then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('keep is not positive: %s', keep),
            hint = 'pass an interval such as 7 days, longer than a message can be redelivered';
    end if;

    insert into sluice.inbox as i (kind, handler, key, expires_at, owned_by)
    values ('handler', once.handler, once.key, v_now + keep, sluice._caller_id())
    -- Expired, and not yet removed by maintenance.
    on conflict on constraint inbox_pkey do update set expires_at = excluded.expires_at, owned_by = excluded.owned_by
    where i.expires_at <= v_now;
    if found then
        return true;
    end if;
    select i.owned_by into v_owned_by from sluice.inbox as i where i.handler = once.handler and i.key = once.key;
    perform sluice._require_sender(v_owned_by, format('key %L of handler %L', once.key, once.handler));
    return false;
end;
$$;

comment on function sluice.once(text, text, interval) is
    'True if this is the first use of an idempotency key by a handler; call it in the transaction of the side effect. The key is kept for the time keep.';
revoke execute on function sluice.once(text, text, interval) from public;
grant execute on function sluice.once(text, text, interval) to sluice_admin, sluice_reader;
