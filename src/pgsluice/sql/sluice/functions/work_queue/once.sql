-- A second transaction with the same key waits here for the end of the first: so of two that handle the same thing at once, one does,
-- and the other learns whether it did.
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
    -- The two are an entry of an index, which has about 2,700.
    v_bytes_max constant integer := 1024;
    v_now timestamptz := clock_timestamp();
    v_name text;
    v_bytes integer;
    v_recorded_by regrole;
begin
    if handler is null or key is null or keep is null then
        raise exception using
            errcode = '22004',
            message = 'handler, key or keep is null',
            hint = 'name the handler, what it does by a key, and how long that is to be known';
    end if;
    select a.name, octet_length(a.value)
    into v_name, v_bytes
    from (values ('handler', handler), ('key', key)) as a (name, value)
    where octet_length(a.value) not between 1 and v_bytes_max;
    if found then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('%s has %s bytes', v_name, v_bytes),
            hint = format('use 1 to %s bytes; of longer ones a hash', v_bytes_max);
    end if;
    if keep <= interval '0' then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('keep is not positive: %s', keep),
            hint = 'give an interval like 7 days, longer than a message may be on its way';
    end if;

    insert into sluice.inbox as i (handler, key, expires_at, recorded_by)
    values (once.handler, once.key, v_now + keep, sluice._caller_id())
    -- Its time is over, and maintenance has not been there yet.
    on conflict on constraint inbox_pkey do update set expires_at = excluded.expires_at, recorded_by = excluded.recorded_by
    where i.expires_at <= v_now;
    if found then
        return true;
    end if;
    select i.recorded_by into v_recorded_by from sluice.inbox as i where i.handler = once.handler and i.key = once.key;
    perform sluice._require_sender(v_recorded_by, format('key %L of handler %L', once.key, once.handler));
    return false;
end;
$$;

comment on function sluice.once(text, text, interval) is
    'Whether this is the first time that a handler does what it calls by this key; to be asked in the transaction that does it. Known for the time keep.';
revoke execute on function sluice.once(text, text, interval) from public;
grant execute on function sluice.once(text, text, interval) to sluice_admin, sluice_reader;
