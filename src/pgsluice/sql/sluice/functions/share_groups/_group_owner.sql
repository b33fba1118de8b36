create or replace function sluice._group_owner(queue_name text, group_name text)
returns integer
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select s.sub_id
    from sluice._require_group(queue_name, group_name) as g
    join pgq.subscriber as s on s.sub_key = g.sub_key;
$$;

comment on function sluice._group_owner(text, text) is
    'Return the ev_owner of events that only this share group receives.';
revoke execute on function sluice._group_owner(text, text) from public;
grant execute on function sluice._group_owner(text, text) to pgq_admin, sluice_admin;
