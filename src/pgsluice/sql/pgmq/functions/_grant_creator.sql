-- Called once the queue has its functions. The tables of a queue belong to the owner of the schemas. Members of
-- sluice_admin have rights on all queues; any other role that may call pgmq.create, such as the owner of an adopted
-- schema, gets rights on the queues that it creates.
create or replace function pgmq._grant_creator(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_creator name := sluice._caller();
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_archive text := pgmq.format_table_name(queue_name, 'a');
begin
    if has_table_privilege(v_creator, format('pgmq.%I', v_queue), 'select, insert, update, delete') then
        return;
    end if;
    execute format(
        'grant select, insert, update, delete, truncate on pgmq.%I, pgmq.%I to %I', v_queue, v_archive, v_creator
    );
    execute format(
        'grant execute on function pgmq.%I(timestamptz, interval, integer, jsonb, boolean) to %I', v_queue, v_creator
    );
    if pgmq._settler(queue_name) is not null then
        execute format('grant execute on function pgmq.%I(bigint, integer, timestamptz, boolean) to %I', v_archive, v_creator);
    end if;
    execute format('grant select on sequence pgmq.%I to %I', v_queue || '_msg_id_seq', v_creator);
end;
$$;

comment on function pgmq._grant_creator(text) is
    'Grant the creator of a queue the rights on its rows, unless it has them.';
revoke execute on function pgmq._grant_creator(text) from public;
grant execute on function pgmq._grant_creator(text) to sluice_admin;
