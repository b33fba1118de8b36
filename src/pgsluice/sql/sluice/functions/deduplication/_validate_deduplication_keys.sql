create or replace function sluice._validate_deduplication_keys(msgs jsonb[], deduplication_keys text[])
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- An entry of the index that they are unique in has about 2,700.
    v_key_bytes_max constant integer := 1024;
    v_bytes integer;
begin
    if coalesce(cardinality(deduplication_keys), 0) <> cardinality(msgs) then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format(
                'deduplication_keys array length (%s) must match msgs array length (%s)',
                coalesce(cardinality(deduplication_keys), 0), cardinality(msgs)
            ),
            hint = 'give one key for each message, null for none';
    end if;
    select octet_length(k.key)
    into v_bytes
    from unnest(deduplication_keys) as k (key)
    where octet_length(k.key) not between 1 and v_key_bytes_max
    limit 1;
    if found then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('deduplication key has %s bytes', v_bytes),
            hint = format('use 1 to %s bytes, or null for none; of longer ones send a hash', v_key_bytes_max);
    end if;
end;
$$;

comment on function sluice._validate_deduplication_keys(jsonb[], text[]) is
    'Raise an error unless each message has a deduplication key or null, and each key can be stored.';
revoke execute on function sluice._validate_deduplication_keys(jsonb[], text[]) from public;
grant execute on function sluice._validate_deduplication_keys(jsonb[], text[]) to sluice_admin, sluice_writer;
