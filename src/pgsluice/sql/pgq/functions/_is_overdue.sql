create or replace function pgq._is_overdue(i_queue_id integer, i_number integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_is_overdue boolean;
begin
    execute format(
        'select coalesce(max(t.tick_time) < clock_timestamp() - 2 * q.queue_rotation_period, true)
         from pgq.queue as q
         left join only pgq.%I as t on true
         where q.queue_id = $1
         group by q.queue_rotation_period',
        format('tick_%s_%s', i_queue_id, i_number)
    )
    using i_queue_id
    into v_is_overdue;
    return v_is_overdue;
end;
$$;

comment on function pgq._is_overdue(integer, integer) is
    'Is a segment that nobody needs still there two rotation periods after its last tick?';
revoke execute on function pgq._is_overdue(integer, integer) from public;
grant execute on function pgq._is_overdue(integer, integer) to pgq_admin, sluice_admin;
