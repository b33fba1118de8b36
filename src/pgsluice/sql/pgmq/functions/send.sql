-- Each overload does the whole work: one that called another took a third longer. Without a delay a message is visible
-- from now(), the start of the transaction and its enqueued_at, which makes it ready instead of deferred (README.md);
-- other sessions do not see it before the commit.
create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay timestamptz)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using delay, msg, headers;
end;
$$;

comment on function pgmq.send(text, jsonb, jsonb, timestamptz) is
    'Send one message that becomes visible at the given time; returns its msg_id.';
revoke execute on function pgmq.send(text, jsonb, jsonb, timestamptz) from public;
grant execute on function pgmq.send(text, jsonb, jsonb, timestamptz) to sluice_admin, sluice_writer;

create or replace function pgmq.send(queue_name text, msg jsonb)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using now(), msg, null::jsonb;
end;
$$;

comment on function pgmq.send(text, jsonb) is
    'Send one message; returns its msg_id.';
revoke execute on function pgmq.send(text, jsonb) from public;
grant execute on function pgmq.send(text, jsonb) to sluice_admin, sluice_writer;

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using now(), msg, headers;
end;
$$;

comment on function pgmq.send(text, jsonb, jsonb) is
    'Send one message with headers; returns its msg_id.';
revoke execute on function pgmq.send(text, jsonb, jsonb) from public;
grant execute on function pgmq.send(text, jsonb, jsonb) to sluice_admin, sluice_writer;

create or replace function pgmq.send(queue_name text, msg jsonb, delay integer)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using pgmq._visible_from(delay), msg, null::jsonb;
end;
$$;

comment on function pgmq.send(text, jsonb, integer) is
    'Send one message that becomes visible after delay seconds; returns its msg_id.';
revoke execute on function pgmq.send(text, jsonb, integer) from public;
grant execute on function pgmq.send(text, jsonb, integer) to sluice_admin, sluice_writer;

create or replace function pgmq.send(queue_name text, msg jsonb, delay timestamptz)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using delay, msg, null::jsonb;
end;
$$;

comment on function pgmq.send(text, jsonb, timestamptz) is
    'Send one message that becomes visible at the given time; returns its msg_id.';
revoke execute on function pgmq.send(text, jsonb, timestamptz) from public;
grant execute on function pgmq.send(text, jsonb, timestamptz) to sluice_admin, sluice_writer;

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay integer)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using pgmq._visible_from(delay), msg, headers;
end;
$$;

comment on function pgmq.send(text, jsonb, jsonb, integer) is
    'Send one message with headers that becomes visible after delay seconds; returns its msg_id.';
revoke execute on function pgmq.send(text, jsonb, jsonb, integer) from public;
grant execute on function pgmq.send(text, jsonb, jsonb, integer) to sluice_admin, sluice_writer;
