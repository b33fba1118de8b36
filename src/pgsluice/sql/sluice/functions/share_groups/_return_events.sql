/*
 * Events that come again, in a group with keys. One that comes again at once goes before the later ones of its key, whatever the group's
 * choice: nothing waits. If it is to wait, then
 *
 *   block  it keeps the key: nothing of it is handed out until its time has come.
 *   skip   it waits alone, among the redeliveries.
 *   park   it is put aside, and all others of the key after it.
 */
create or replace function sluice._return_events(
    i_group sluice.share_group, i_now sluice.claim, i_outcome sluice.outcome, i_events sluice.redelivery[]
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_of_key record;
begin
    perform sluice._write_redelivery(i_now, e)
    from unnest(i_events) as e
    where e.key is null or i_group.when_waiting = 'skip' and e.due_at > i_outcome.outcome_at;

    for v_of_key in
        select e.key, array_agg(e order by e.place) as events, max(e.due_at) as due_at
        from unnest(i_events) as e
        where e.key is not null and not (i_group.when_waiting = 'skip' and e.due_at > i_outcome.outcome_at)
        group by e.key
    loop
        if i_group.when_waiting = 'park'
            and (v_of_key.due_at > i_outcome.outcome_at or sluice._parked_keys(i_group, array[v_of_key.key]) <> '{}')
        then
            perform sluice._park_events(i_group, i_outcome.claim_id, v_of_key.events);
        else
            perform sluice._put_back(sluice._last_turn(i_group.group_id, v_of_key.key), v_of_key.events, v_of_key.due_at);
        end if;
    end loop;
end;
$$;

comment on function sluice._return_events(sluice.share_group, sluice.claim, sluice.outcome, sluice.redelivery[]) is
    'Do with events that come again what the group does while one waits.';
revoke execute on function sluice._return_events(sluice.share_group, sluice.claim, sluice.outcome, sluice.redelivery[]) from public;
grant execute on function sluice._return_events(sluice.share_group, sluice.claim, sluice.outcome, sluice.redelivery[]) to pgq_admin, sluice_admin;
