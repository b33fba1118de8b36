create or replace function pgq._consumer_id(i_consumer_name text)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumer_id integer;
begin
    -- The lock keeps the name until the subscription is committed: unregister_consumer removes names without subscriptions.
    -- It may do so between the two statements; then the next round makes the name anew.
    loop
        select c.co_id into v_consumer_id from pgq.consumer as c where c.co_name = i_consumer_name for key share;
        exit when found;
        insert into pgq.consumer (co_name) values (i_consumer_name) on conflict (co_name) do nothing;
    end loop;
    return v_consumer_id;
end;
$$;

comment on function pgq._consumer_id(text) is
    'The id of a consumer''s name, which is made if it is new, and kept until the end of the transaction.';
revoke execute on function pgq._consumer_id(text) from public;
grant execute on function pgq._consumer_id(text) to pgq_admin, sluice_admin;
