create or replace function pgq._mark_origin(i_queue_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_incarnation constant text := gen_random_uuid()::text;
    v_made_by xid;
begin
    delete from pgq.origin as o where o.queue_id = i_queue_id;
    insert into pgq.origin values (i_queue_id, 0, '0', v_incarnation) returning xmin into v_made_by;
    update pgq.origin as o set made_by = v_made_by where o.queue_id = i_queue_id and o.part = 0;
    begin
        insert into pgq.origin values (i_queue_id, 1, '0', v_incarnation) returning xmin into v_made_by;
        update pgq.origin as o set made_by = v_made_by where o.queue_id = i_queue_id and o.part = 1;
    exception
        when assert_failure then
            raise; -- never reached: the block exists for its subtransaction
    end;
end;
$$;

comment on function pgq._mark_origin(integer) is
    'Note that the rows of a log (0: the retry entries of all logs) have transaction ids of this server.';
revoke execute on function pgq._mark_origin(integer) from public;
grant execute on function pgq._mark_origin(integer) to pgq_admin, sluice_admin;
