create or replace function pgmq._validate_batch_params(msgs jsonb[], headers jsonb[])
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_msgs_length integer := coalesce(array_length(msgs, 1), 0);
    v_headers_length integer := coalesce(array_length(headers, 1), 0);
begin
    if v_msgs_length = 0 then
        raise exception using
            message = 'msgs cannot be NULL or empty',
            hint = 'send at least one message';
    end if;
    if headers is not null and v_headers_length <> v_msgs_length then
        raise exception using
            message = format(
                'headers array length (%s) must match msgs array length (%s)', v_headers_length, v_msgs_length
            ),
            hint = 'pass one element of headers for each message, null for none';
    end if;
end;
$$;

comment on function pgmq._validate_batch_params(jsonb[], jsonb[]) is
    'Raise an error unless there are messages, and either one element of headers for each or no headers.';
revoke execute on function pgmq._validate_batch_params(jsonb[], jsonb[]) from public;
grant execute on function pgmq._validate_batch_params(jsonb[], jsonb[]) to sluice_admin, sluice_writer;
