create or replace function sluice._require_claims(msg_ids bigint[], read_cts integer[], enqueued_ats timestamptz[])
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(cardinality(msg_ids), 0) <> coalesce(cardinality(read_cts), 0) then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format(
                'read_cts array length (%s) must match msg_ids array length (%s)',
                coalesce(cardinality(read_cts), 0), coalesce(cardinality(msg_ids), 0)
            ),
            hint = 'pass the read_ct that each claim returned: with msg_id it names the claim';
    end if;
    if cardinality(enqueued_ats) <> coalesce(cardinality(msg_ids), 0) then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format(
                'enqueued_ats array length (%s) must match msg_ids array length (%s)',
                cardinality(enqueued_ats), coalesce(cardinality(msg_ids), 0)
            ),
            hint = 'pass the enqueued_at of each message, or null for all';
    end if;
end;
$$;

comment on function sluice._require_claims(bigint[], integer[], timestamptz[]) is
    'Raise an error unless each msg_id has its read_ct, and its enqueued_at if these are given.';
revoke execute on function sluice._require_claims(bigint[], integer[], timestamptz[]) from public;
grant execute on function sluice._require_claims(bigint[], integer[], timestamptz[]) to sluice_admin, sluice_reader;
