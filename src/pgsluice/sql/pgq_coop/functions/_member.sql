create or replace function pgq_coop._member(i_queue_name text, i_consumer_name text, i_subconsumer_name text)
returns pgq.subscriber
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_member pgq.subscriber;
begin
    select s.* into v_member
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name
      and c.co_name = i_consumer_name || '.' || i_subconsumer_name
      and s.sub_main is not null;
    return v_member;
end;
$$;

comment on function pgq_coop._member(text, text, text) is
    'Return a subconsumer by its names, without locking it; null fields if it is not registered.';
revoke execute on function pgq_coop._member(text, text, text) from public;
grant execute on function pgq_coop._member(text, text, text) to pgq_admin, sluice_admin;
