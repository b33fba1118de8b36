-- Calls: sluice.sink_position, whose lock is held until the end of the transaction.
create or replace function sluice.received_moving(from_shard text)
returns uuid[]
language sql
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (
            select array(select id::uuid from jsonb_array_elements_text(p.detail) as id)
            from sluice.sink_position(format('sluice.shard %s', from_shard)) as p
        ),
        '{}'
    );
$$;

comment on function sluice.received_moving(text) is
    'Return the moving_ids that were last received from a shard; others who receive from it wait for the end of this transaction.';
revoke execute on function sluice.received_moving(text) from public;
grant execute on function sluice.received_moving(text) to sluice_admin;
