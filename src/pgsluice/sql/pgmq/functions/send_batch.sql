-- The overload with headers and a time does the work. The others are PL/pgSQL too, because it caches the plan of the
-- call, which SQL functions do not.
create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._validate_batch_params(msgs, headers);
    -- The ids follow the array because rows are inserted in its order. A null array of headers has no elements, and
    -- unnest pads the shorter side with nulls.
    return query execute format(
        'insert into pgmq.%I (vt, message, headers)
         select $1, item.message, item.headers
         from unnest($2, $3) with ordinality as item (message, headers, position)
         order by item.position
         returning msg_id',
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
    return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], now());
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
    return query select pgmq.send_batch(queue_name, msgs, headers, now());
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
    return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], pgmq._visible_from(delay));
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
    return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], delay);
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
    return query select pgmq.send_batch(queue_name, msgs, headers, pgmq._visible_from(delay));
end;
$$;

comment on function pgmq.send_batch(text, jsonb[], jsonb[], integer) is
    'Send messages with headers that become visible after delay seconds; returns their msg_ids.';
revoke execute on function pgmq.send_batch(text, jsonb[], jsonb[], integer) from public;
grant execute on function pgmq.send_batch(text, jsonb[], jsonb[], integer) to sluice_admin, sluice_writer;
