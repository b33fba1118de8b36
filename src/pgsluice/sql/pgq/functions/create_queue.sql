create or replace function pgq.create_queue(i_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off -- the settings of functions are compared as text
as $$
declare
    v_queue_id integer;
    v_parent text;
    v_event_seq text;
    v_tick_seq text;
    v_ntables integer;
    v_statement text;
begin
    if i_queue_name is null then
        raise exception using
            errcode = '22004',
            message = 'Invalid NULL value',
            hint = 'pass the name of the event log';
    end if;

    perform sluice._require_short_name('name of the event log'::text, i_queue_name);
    -- Serialize creations of this name, so that the second one sees the row of the first.
    perform sluice._lock_name('pgq.queue_' || i_queue_name);
    perform from pgq.queue as q where q.queue_name = i_queue_name;
    if found then
        return 0;
    end if;

    v_queue_id := nextval('pgq.queue_queue_id_seq');
    v_parent := format('event_%s', v_queue_id);
    v_event_seq := v_parent || '_id_seq';
    v_tick_seq := v_parent || '_tick_seq';

    insert into pgq.queue (queue_id, queue_name, queue_data_pfx, queue_event_seq, queue_tick_seq)
    values (
        v_queue_id, i_queue_name,
        'pgq.' || v_parent, 'pgq.' || v_event_seq, 'pgq.' || v_tick_seq
    )
    returning queue_ntables into v_ntables;
    perform pgq._mark_origin(v_queue_id);

    execute format('create sequence pgq.%I', v_tick_seq);
    execute format('create sequence pgq.%I', v_event_seq);
    execute format('create table pgq.%I () inherits (pgq.event_template)', v_parent);
    execute format('create table pgq.%I (check (tick_queue = %s)) inherits (pgq.tick)', 'tick_' || v_queue_id, v_queue_id);
    -- The parents are empty. They are read with their children, and without indexes on them no plan has only index
    -- scans.
    execute format('create index %I on pgq.%I (ev_txid)', v_parent || '_txid_idx', v_parent);
    execute format('alter table pgq.%I add primary key (tick_id)', 'tick_' || v_queue_id);
    -- Events have no key; without a replica identity sluice.after_restore could not update published ones.
    execute format('alter table pgq.%I replica identity full', v_parent);
    for v_number in 0 .. v_ntables - 1
    loop
        perform pgq._create_segment(v_queue_id, v_number);
    end loop;

    for v_statement in select f.statement from pgq._outdated_functions(array[v_queue_id]) as f
    loop
        execute v_statement;
    end loop;
    perform pgq.grant_perms(i_queue_name);
    perform pgq.ticker(i_queue_name);
    return 1;
end;
$$;

comment on function pgq.create_queue(text) is
    'Create an event log with its first tick; returns 1 if created, 0 if it exists.';
revoke execute on function pgq.create_queue(text) from public;
grant execute on function pgq.create_queue(text) to pgq_admin, sluice_admin;
