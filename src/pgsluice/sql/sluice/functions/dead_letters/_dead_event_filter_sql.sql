-- Used in statements planned with the actual values: null conditions are not part of the plan.
create or replace function sluice._dead_event_filter_sql()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
return 'm.queue_name = $1 and m.group_name = $2
    and ($3 is null or m.ev_type = $3)
    and ($4 is null or m.reason = $4)
    and ($5 is null or m.ev_id = any ($5))
    and ($6 is null or m.dead_at >= $6)
    and ($7 is null or m.dead_at < $7)';

comment on function sluice._dead_event_filter_sql() is
    'Return a condition on m: of the log $1 and the share group $2, of the type $3, the reason $4, the ev_ids $5, dead-lettered from $6 on and before $7; null is no condition.';
revoke execute on function sluice._dead_event_filter_sql() from public;
grant execute on function sluice._dead_event_filter_sql() to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
