-- Each overload does the whole work, as in send, and calls the validation only where it may raise an error. The ids
-- follow the array because its elements are inserted in their order. A null array of headers has no elements, and the
-- shorter of two unnest is padded with nulls.
create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if array_length(msgs, 1) is null
        or headers is not null and array_length(headers, 1) is distinct from array_length(msgs, 1)
    then
        perform pgmq._validate_batch_params(msgs, headers);
    end if;
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) select $1, unnest($2), unnest($3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using delay, msgs, headers;
end;
$$;

comment on function pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) is
    'Send messages in array order that become visible at the given time; returns their msg_ids in that order.';
revoke execute on function pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) from public;
grant execute on function pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[])
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if array_length(msgs, 1) is null then
        perform pgmq._validate_batch_params(msgs, null::jsonb[]);
    end if;
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) select $1, unnest($2), null returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using now(), msgs;
end;
$$;

comment on function pgmq.send_batch(text, jsonb[]) is
    'Send messages in array order; returns their msg_ids in that order.';
revoke execute on function pgmq.send_batch(text, jsonb[]) from public;
grant execute on function pgmq.send_batch(text, jsonb[]) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[])
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if array_length(msgs, 1) is null
        or headers is not null and array_length(headers, 1) is distinct from array_length(msgs, 1)
    then
        perform pgmq._validate_batch_params(msgs, headers);
    end if;
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) select $1, unnest($2), unnest($3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using now(), msgs, headers;
end;
$$;

comment on function pgmq.send_batch(text, jsonb[], jsonb[]) is
    'Send messages with headers, one element per message; returns their msg_ids.';
revoke execute on function pgmq.send_batch(text, jsonb[], jsonb[]) from public;
grant execute on function pgmq.send_batch(text, jsonb[], jsonb[]) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay integer)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if array_length(msgs, 1) is null then
        perform pgmq._validate_batch_params(msgs, null::jsonb[]);
    end if;
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) select $1, unnest($2), null returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using pgmq._visible_from(delay), msgs;
end;
$$;

comment on function pgmq.send_batch(text, jsonb[], integer) is
    'Send messages that become visible after delay seconds; returns their msg_ids.';
revoke execute on function pgmq.send_batch(text, jsonb[], integer) from public;
grant execute on function pgmq.send_batch(text, jsonb[], integer) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay timestamptz)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if array_length(msgs, 1) is null then
        perform pgmq._validate_batch_params(msgs, null::jsonb[]);
    end if;
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) select $1, unnest($2), null returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using delay, msgs;
end;
$$;

comment on function pgmq.send_batch(text, jsonb[], timestamptz) is
    'Send messages that become visible at the given time; returns their msg_ids.';
revoke execute on function pgmq.send_batch(text, jsonb[], timestamptz) from public;
grant execute on function pgmq.send_batch(text, jsonb[], timestamptz) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay integer)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if array_length(msgs, 1) is null
        or headers is not null and array_length(headers, 1) is distinct from array_length(msgs, 1)
    then
        perform pgmq._validate_batch_params(msgs, headers);
    end if;
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) select $1, unnest($2), unnest($3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using pgmq._visible_from(delay), msgs, headers;
end;
$$;

comment on function pgmq.send_batch(text, jsonb[], jsonb[], integer) is
    'Send messages with headers that become visible after delay seconds; returns their msg_ids.';
revoke execute on function pgmq.send_batch(text, jsonb[], jsonb[], integer) from public;
grant execute on function pgmq.send_batch(text, jsonb[], jsonb[], integer) to sluice_admin, sluice_writer;
