create or replace function pgq._consumer_id(i_consumer_name text)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumer_id integer;
begin
    -- The lock keeps the name until the subscription is committed: unregister_consumer removes names without
    -- subscriptions. If it does so between the two statements, the next iteration inserts the name again.
    loop
        select c.co_id into v_consumer_id from pgq.consumer as c where c.co_name = i_consumer_name for key share;
        exit when found;
        perform sluice._require_short_name('name of the consumer'::text, i_consumer_name);
        insert into pgq.consumer (co_name) values (i_consumer_name) on conflict (co_name) do nothing;
    end loop;
    return v_consumer_id;
end;
$$;

comment on function pgq._consumer_id(text) is
    'Return the id of a consumer name, inserted if it is new, and keep it until the end of the transaction.';
revoke execute on function pgq._consumer_id(text) from public;
grant execute on function pgq._consumer_id(text) to pgq_admin, sluice_admin;
