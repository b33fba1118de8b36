create or replace function sluice.peek(queue_name text, qty integer default 1, after_msg_id bigint default null)
returns setof sluice.stored_message
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from sluice.browse(
        queue_name, 'queue'::text, after_msg_id, qty, '{}'::jsonb, '{}'::jsonb, null::timestamptz, null::timestamptz
    );
$$;

comment on function sluice.peek(text, integer, bigint) is
    'Return the first messages of a queue, visible or not, lowest msg_id first, without reading them.';
revoke execute on function sluice.peek(text, integer, bigint) from public;
grant execute on function sluice.peek(text, integer, bigint) to sluice_admin, sluice_reader;
