create or replace function sluice.list_actions(
    of_queue text default null, before_action_id bigint default null, qty integer default 100
)
returns table (
    action_id bigint, acted_at timestamptz, actor text, application text, action text, queue_name text, filter jsonb,
    message_count bigint, note text
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select a.action_id, a.acted_at, a.actor, a.application, a.action, a.queue_name, a.filter, a.message_count, a.note
    from sluice.action as a
    where (before_action_id is null or a.action_id < before_action_id)
      and (of_queue is null or lower(a.queue_name) = lower(of_queue))
    order by a.action_id desc
    limit qty;
$$;

comment on function sluice.list_actions(text, bigint, integer) is
    'Return the actions of operators, newest first, at most qty: of one queue or log, or of all; for the next page pass the lowest action_id. They are kept for 90 days.';
revoke execute on function sluice.list_actions(text, bigint, integer) from public;
grant execute on function sluice.list_actions(text, bigint, integer) to pgq_admin, sluice_admin;
