-- AFTER ROW triggers run when the statement has changed all its rows, and before its own events are appended. So the events of
-- their statements on the same table get new ids, behind those of the statement. They are of this transaction, and no other
-- session has read them.
--
-- The setting sluice.nested holds, for each capture ("table log") whose rows statements of triggers have changed, the lowest id
-- of their events by trigger depth: {"16385 1": {"2": 17}}. It is local to the transaction, and a rollback to a savepoint
-- restores it.
create or replace function sluice._order_nested(
    place text, depth integer, log_table text, table_name text, key json, own_id bigint
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_noted constant jsonb := coalesce(nullif(current_setting('sluice.nested', true), ''), '{}');
    v_entries jsonb;
    v_nested_id bigint;
    v_moved_id bigint;
begin
    select min(n.value::bigint)
    into v_nested_id
    from jsonb_each_text(v_noted -> place) as n
    where n.key::integer > depth
      -- An older capture has no such trigger, or it may be disabled: then nothing tells earlier statements from those within.
      and exists (
          select
          from pg_trigger as t
          where t.tgrelid = split_part(place, ' ', 1)::oid
            and t.tgname = format('~sluice_capture_begin_%s', split_part(place, ' ', 2))
            and t.tgenabled in ('O', 'A')
      );
    if v_nested_id is not null then
        execute format(
            'with moved as materialized (
                 select e.ev_id, nextval(%L) as new_id
                 from (
                     select n.ev_id
                     from pgq.%I as n
                     where n.ev_txid = pg_current_xact_id()
                       and n.ev_extra1 = $1
                       and n.ev_id >= $2
                       and n.ev_id < $3
                       and n.ev_id <> all ($4)
                     order by n.ev_id
                 ) as e
             ), updated as (
                 update pgq.%2$I as e
                 set ev_id = m.new_id
                 from moved as m
                 where e.ev_txid = pg_current_xact_id()
                   and e.ev_id = m.ev_id
             )
             select min(m.new_id) from moved as m',
            format('pgq.%s_id_seq', log_table), log_table
        )
        using table_name, v_nested_id, own_id,
            sluice._events_in_front(split_part(place, ' ', 1)::oid, log_table, table_name, key, v_nested_id, own_id)
        into v_moved_id;
    end if;
    select coalesce(jsonb_object_agg(n.key, n.value::bigint), '{}')
    into v_entries
    from jsonb_each_text(v_noted -> place) as n
    where n.key::integer <= depth;
    if depth > 1 and not v_entries ? depth::text then
        v_entries := v_entries || jsonb_build_object(depth, own_id);
    end if;
    if v_nested_id is not null then
        v_entries := v_entries || jsonb_build_object(depth + 1, coalesce(v_moved_id, v_nested_id));
    end if;
    if v_entries is distinct from coalesce(v_noted -> place, '{}') then
        perform set_config('sluice.nested', (v_noted || jsonb_build_object(place, v_entries))::text, true);
    end if;
end;
$$;

comment on function sluice._order_nested(text, integer, text, text, json, bigint) is
    'Order the events of a statement, from own_id on, before those of the statements of its triggers on the same table.';
revoke execute on function sluice._order_nested(text, integer, text, text, json, bigint) from public;
grant execute on function sluice._order_nested(text, integer, text, text, json, bigint) to pgq_admin, sluice_admin;
