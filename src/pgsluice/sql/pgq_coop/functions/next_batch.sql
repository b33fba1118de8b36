create or replace function pgq_coop.next_batch(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq_coop.next_batch_custom(i_queue_name, i_consumer_name, i_subconsumer_name, null::interval, null::integer, null::interval, null::interval);
end;
$$;

comment on function pgq_coop.next_batch(text, text, text) is
    'Open a batch for a subconsumer, or return its open one; null if there is no new tick. Registers the subconsumer if it is new.';
revoke execute on function pgq_coop.next_batch(text, text, text) from public;
grant execute on function pgq_coop.next_batch(text, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

create or replace function pgq_coop.next_batch(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_dead_interval interval
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq_coop.next_batch_custom(i_queue_name, i_consumer_name, i_subconsumer_name, null::interval, null::integer, null::interval, i_dead_interval);
end;
$$;

comment on function pgq_coop.next_batch(text, text, text, interval) is
    'As next_batch, and take over the batch of a subconsumer that was inactive for the dead interval, under a new id.';
revoke execute on function pgq_coop.next_batch(text, text, text, interval) from public;
grant execute on function pgq_coop.next_batch(text, text, text, interval) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
