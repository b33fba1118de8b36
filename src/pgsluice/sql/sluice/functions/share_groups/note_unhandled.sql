create or replace function sluice.note_unhandled(log_name text, group_name text, outcome text, types text[], events bigint[])
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group constant sluice.share_group := sluice._require_group(log_name, group_name);
    v_is_accepted constant boolean := outcome = 'accept';
    v_types_max constant integer := 1000; -- a producer may invent types without end
begin
    if outcome not in ('accept', 'dead-letter') then
        raise exception using
            errcode = '22023',
            message = format('invalid outcome %L', outcome),
            hint = 'use accept or dead-letter';
    end if;
    insert into sluice.group_type as u (group_id, is_handled, ev_type, accepted, dead_lettered, first_accepted_at)
    select v_group.group_id, false, n.ev_type, case when v_is_accepted then n.events else 0 end,
        case when v_is_accepted then 0 else n.events end, case when v_is_accepted then clock_timestamp() end
    from (
        select left(coalesce(t.ev_type, ''), 100) as ev_type, sum(t.events) as events
        from unnest(types, events) as t (ev_type, events)
        group by 1
        order by 1
    ) as n
    where (select count(*) from sluice.group_type as u where u.group_id = v_group.group_id and not u.is_handled) < v_types_max
       or exists (
           select from sluice.group_type as u
           where u.group_id = v_group.group_id and not u.is_handled and u.ev_type = n.ev_type
       )
    on conflict on constraint group_type_pkey do update
    set accepted = u.accepted + excluded.accepted, dead_lettered = u.dead_lettered + excluded.dead_lettered,
        first_accepted_at = coalesce(u.first_accepted_at, excluded.first_accepted_at), noted_at = clock_timestamp();
end;
$$;

comment on function sluice.note_unhandled(text, text, text, text[], bigint[]) is
    'Count events of types that no handler is declared for, which a worker of a share group accepted or dead-lettered.';
revoke execute on function sluice.note_unhandled(text, text, text, text[], bigint[]) from public;
grant execute on function sluice.note_unhandled(text, text, text, text[], bigint[]) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
