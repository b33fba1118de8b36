-- For what is remembered by name: a missing table tells the others.
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
            message = format('queue %L does not exist', queue_name),
            hint = format('create it with pgmq.create(%L), or look at pgmq.list_queues()', queue_name);
    end if;
    return v_registered;
end;
$$;

comment on function sluice._registered_name(text) is
    'A queue''s name as it was created, whatever the case it is given in; an error when there is none.';
revoke execute on function sluice._registered_name(text) from public;
grant execute on function sluice._registered_name(text) to sluice_admin, sluice_reader;
