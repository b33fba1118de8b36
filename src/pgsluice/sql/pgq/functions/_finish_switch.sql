-- PgQ needs two transactions for a rotation, since its batches read only the tables that can have their events. Here
-- batches read all tables. Both transaction ids are kept for clients that read them, and an unfinished first step does
-- not block the next rotation.
create or replace function pgq._finish_switch(i_queue_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.queue as q
    set queue_switch_step2 = pg_current_xact_id()
    where q.queue_id = (
        select open.queue_id
        from pgq.queue as open
        where open.queue_id = i_queue_id
          and open.queue_switch_step2 is null
          and open.queue_switch_step1 is distinct from pg_current_xact_id_if_assigned()
        for no key update skip locked
    );
end;
$$;

comment on function pgq._finish_switch(integer) is
    'Finish a log''s rotation (step 2), if one is open and step 1 was in another transaction.';
revoke execute on function pgq._finish_switch(integer) from public;
grant execute on function pgq._finish_switch(integer) to pgq_admin, sluice_admin;
