-- Upper case cannot collide with queue tables, whose names are folded. The name of a table that PGMQ made may have 63
-- bytes already, which leaves no room for a suffix.
create or replace function pgmq._notify_sequence(queue_name text)
returns text
language plpgsql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text := pgmq.format_table_name(queue_name, 'q')::name;
begin
    if octet_length(v_table) > 63 - octet_length('_NOTIFY') then
        v_table := 'q_' || md5(v_table);
    end if;
    return format('pgmq.%I', v_table || '_NOTIFY');
end;
$$;

comment on function pgmq._notify_sequence(text) is
    'The sequence that stores when, and by which transaction, a queue''s listeners were last notified; quoted, with its schema.';
revoke execute on function pgmq._notify_sequence(text) from public;
grant execute on function pgmq._notify_sequence(text) to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
