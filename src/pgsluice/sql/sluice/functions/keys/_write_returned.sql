-- In the order of the log among the returned events of the key, and before all events never claimed.
create or replace function sluice._write_returned(i_turn sluice.key_turn, i_events sluice.redelivery[], i_due_at timestamptz)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_events sluice.redelivery[] := '{}';
    v_event sluice.redelivery;
begin
    foreach v_event in array i_events
    loop
        v_event.redelivery_id := nextval('sluice.key_place_seq');
        v_events := v_events || v_event;
        i_turn.returned := i_turn.returned || v_event.redelivery_id;
    end loop;
    perform sluice._write_waiting(v_events, true);
    i_turn.returned := array(
        select w.waiting_id
        from sluice.waiting_event as w
        where w.group_id = i_turn.group_id
          and not w.is_left
          and w.lane = i_turn.key
          and w.is_returned
          and w.waiting_id = any (i_turn.returned)
        order by w.place
    );
    i_turn.due_at := greatest(i_turn.due_at, i_due_at);
    i_turn.since := coalesce(i_turn.since, clock_timestamp());
    perform sluice._write_turns(array[i_turn]);
end;
$$;

comment on function sluice._write_returned(sluice.key_turn, sluice.redelivery[], timestamptz) is
    'Append claimed events of a key for redelivery, not before a time, and the state of the key.';
revoke execute on function sluice._write_returned(sluice.key_turn, sluice.redelivery[], timestamptz) from public;
grant execute on function sluice._write_returned(sluice.key_turn, sluice.redelivery[], timestamptz) to pgq_admin, sluice_admin;
