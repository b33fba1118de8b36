-- For records by name: other functions notice a missing queue by its missing table.
create or replace function sluice._registered_name(queue_name text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_registered text;
begin
    select m.queue_name
    into v_registered
    from pgmq.meta as m
    where lower('q_' || m.queue_name) = pgmq.format_table_name(_registered_name.queue_name, 'q')
    order by m.queue_name = _registered_name.queue_name desc
    limit 1;
    if not found then
        raise exception using
            errcode = 'QU005',
            table = coalesce(queue_name, 'NULL'),
            message = format('queue %L does not exist', queue_name),
            hint = format('create it with pgmq.create(%L); pgmq.list_queues() lists the existing ones', queue_name);
    end if;
    return v_registered;
end;
$$;

comment on function sluice._registered_name(text) is
    'Return a queue''s name as it was created, for a name in any case; raise an error if it does not exist.';
revoke execute on function sluice._registered_name(text) from public;
grant execute on function sluice._registered_name(text) to sluice_admin, sluice_monitor, sluice_reader, sluice_writer;
