create or replace function sluice._stored_columns(relation text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select case relation
        when 'queue' then
            $columns$m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, null::timestamptz,
            case
                when m.vt <= clock_timestamp() then 'visible'
                when m.last_read_at is not null then 'in flight'
                when m.read_ct > 0 then 'retrying'
                else 'delayed'
            end,
            m.message, m.headers$columns$
        when 'archive' then
            $columns$m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.archived_at, 'archived', m.message,
            m.headers$columns$
        when 'dead letters' then
            $columns$m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, null::timestamptz, null::timestamptz, 'dead',
            m.message, m.headers$columns$
    end;
$$;

comment on function sluice._stored_columns(text) is
    'Return the columns of sluice.stored_message for m, a row of a queue, an archive or the dead letters.';
revoke execute on function sluice._stored_columns(text) from public;
grant execute on function sluice._stored_columns(text) to sluice_admin, sluice_reader;
