create or replace function pgq.grant_perms(x_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
begin
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = x_queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(x_queue_name, 'NULL'),
            message = 'Queue not found',
            detail = format('There is no event log %L.', x_queue_name),
            hint = 'pgq.get_queue_info() lists the existing ones';
    end if;
    perform pgq._grant_queue(v_queue_id);
    return 1;
end;
$$;

comment on function pgq.grant_perms(text) is
    'Grant the roles of this release, and all grantees of pgq.event_template, their rights on a log''s tables; returns 1.';
revoke execute on function pgq.grant_perms(text) from public;
grant execute on function pgq.grant_perms(text) to pgq_admin, sluice_admin;
