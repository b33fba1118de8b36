/*
 * A worker declares the types of all handlers of its app, whichever of them it runs, before its first claim, and again every hour. So a claim of any worker
 * knows what others handle: those that run other handlers of the app, and those of another version of it.
 *
 * A declaration is removed a week after it was last made, but not while events wait for its handler: see sluice._expire_types.
 */
create or replace function sluice.declare_types(log_name text, group_name text, app text, handlers text[], types text[])
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_max constant integer := 400; -- a longer type is shortened in sluice.waiting_event
    v_group constant sluice.share_group := sluice._require_group(log_name, group_name);
    v_long text;
begin
    v_long := (select t.name from unnest(types) as t (name) where octet_length(t.name) > v_bytes_max limit 1);
    if v_long is not null then
        raise exception using
            errcode = '22023',
            message = format('event type %L of share group %L is longer than %s bytes', left(v_long, 60), group_name, v_bytes_max),
            hint = 'shorten the type';
    end if;
    perform from sluice.share_group as g where g.group_id = v_group.group_id for no key update;
    insert into sluice.group_type as t (group_id, is_handled, ev_type, app, handler)
    select distinct v_group.group_id, true, coalesce(d.ev_type, ''), declare_types.app, d.handler
    from unnest(handlers, types) as d (handler, ev_type)
    on conflict on constraint group_type_pkey do update set noted_at = clock_timestamp();
    perform sluice._store_types(v_group.group_id);
    return v_group.unhandled;
end;
$$;

comment on function sluice.declare_types(text, text, text, text[], text[]) is
    'Declare the event types that the handlers of an app handle in a share group, a type per handler; null: all types that no other handler declares. Claims leave events of these types to members that handle them. Returns the option unhandled of the group.';
revoke execute on function sluice.declare_types(text, text, text, text[], text[]) from public;
grant execute on function sluice.declare_types(text, text, text, text[], text[]) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
