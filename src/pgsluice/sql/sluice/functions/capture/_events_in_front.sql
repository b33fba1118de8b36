-- A BEFORE ROW trigger runs between the rows. It cannot change a row that the statement changes later, as PostgreSQL refuses
-- that, but it can free a key that the statement then uses. If it was a key of the statement's own row, it was freed later. Two
-- equal rows do not tell: then it was later if the table has AFTER ROW triggers. Without key, the order of equal rows does not
-- matter. A large value that an update left unchanged is only in the row after it.
create or replace function sluice._events_in_front(
    source_table oid, log_table text, table_name text, key json, nested_id bigint, own_id bigint
)
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_runs_before boolean;
    v_runs_after boolean;
    v_found bigint[];
begin
    select bool_or(t.tgtype & 2 > 0), bool_or(t.tgtype & 2 = 0)
    into v_runs_before, v_runs_after
    from pg_trigger as t
    where not t.tgisinternal
      and t.tgtype & 1 > 0
      and (t.tgrelid = source_table or t.tgrelid in (select p.relid from pg_partition_tree(source_table) as p));
    if v_runs_before is not true or json_typeof(key) is distinct from 'array' then
        return '{}';
    end if;
    execute format(
        'with change as materialized (
             select c.ev_id, c.before::text as before, c.after::text as after,
                 (select json_agg(c.before ->> k.name)::text from json_array_elements_text($4) as k (name)) as was,
                 (select json_agg(c.after ->> k.name)::text from json_array_elements_text($4) as k (name)) as now
             from (
                 select e.ev_id,
                     case e.ev_type when ''u'' then coalesce(nullif(d.before::text, ''null'')::json, d.after) else d.before end as before,
                     d.after
                 from pgq.%I as e
                 cross join lateral (
                     select
                         case when json_array_length(i.envelope -> ''unchanged'') > 0 then (
                             select concat(
                                 ''{'', string_agg(concat(to_json(n.name), '':'', coalesce(o.value, n.value)), '','' order by n.position), ''}''
                             )::json
                             from json_each(i.envelope -> ''after'') with ordinality as n (name, value, position)
                             left join json_each(i.envelope -> ''before'') as o (name, value) using (name)
                         ) else i.envelope -> ''before'' end as before,
                         i.envelope -> ''after'' as after
                     from (values (e.ev_data::json)) as i (envelope)
                 ) as d
                 where e.ev_txid = pg_current_xact_id()
                   and e.ev_extra1 = $1
                   and e.ev_id >= $2
             ) as c
         ), freed as materialized (
             select n.was, max(n.ev_id) as ev_id
             from change as n
             join change as o on o.now = n.was
             where n.ev_id < $3
               and o.ev_id >= $3
               and n.now <> n.was
               and o.now <> o.was
               and (n.before <> o.after or not $5)
             group by n.was
         )
         select array_agg(distinct n.ev_id)
         from change as n
         join freed as f on f.was in (n.was, n.now)
         where n.ev_id <= f.ev_id',
        log_table
    )
    using table_name, nested_id, own_id, key, v_runs_after
    into v_found;
    return coalesce(v_found, '{}');
end;
$$;

comment on function sluice._events_in_front(oid, text, text, json, bigint, bigint) is
    'Return the ids of the events from nested_id on that free a key for a row of the statement whose events begin with own_id.';
revoke execute on function sluice._events_in_front(oid, text, text, json, bigint, bigint) from public;
grant execute on function sluice._events_in_front(oid, text, text, json, bigint, bigint) to pgq_admin, sluice_admin;
