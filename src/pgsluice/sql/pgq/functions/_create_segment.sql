-- A segment: an event table and its tick table, truncated together. Autovacuum is off, because rows are only appended
-- and removed by TRUNCATE. What exists is left as it is: after a table was dropped by hand, this creates it again.
create or replace function pgq._create_segment(i_queue_id integer, i_number integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_events text := format('event_%s_%s', i_queue_id, i_number);
    v_ticks text := format('tick_%s_%s', i_queue_id, i_number);
begin
    if to_regclass(format('pgq.%I', v_ticks)) is null then
        execute format(
            'create table pgq.%I (primary key (tick_id)) inherits (pgq.%I)
                with (autovacuum_enabled = off, toast.autovacuum_enabled = off)',
            v_ticks, format('tick_%s', i_queue_id)
        );
    end if;
    if to_regclass(format('pgq.%I', v_events)) is not null then
        return;
    end if;
    execute format(
        'create table pgq.%I () inherits (pgq.%I) with (autovacuum_enabled = off, toast.autovacuum_enabled = off)',
        v_events, format('event_%s', i_queue_id)
    );
    -- The transaction gets its id before the event gets its number, also when a client copies into the table directly:
    -- the numbers that a tick has counted then belong to transactions that its snapshot knows.
    execute format(
        'alter table pgq.%I alter column ev_id set default
            nextval(case when pg_current_xact_id() is not null then %L::regclass end)',
        v_events, format('pgq.event_%s_id_seq', i_queue_id)
    );
    execute format('alter table pgq.%I replica identity full', v_events);
    -- The same indexes as the parent: see pgq._prepare_claims.
    if to_regclass(format('pgq.%I', format('event_%s_id_idx', i_queue_id))) is null then
        execute format('create index %I on pgq.%I (ev_txid)', v_events || '_txid_idx', v_events);
    else
        execute format('create index %I on pgq.%I (ev_txid, ev_id)', v_events || '_txid_idx', v_events);
        execute format('create index %I on pgq.%I (ev_id)', v_events || '_id_idx', v_events);
    end if;
end;
$$;

comment on function pgq._create_segment(integer, integer) is
    'Create the event table and the tick table of a segment, or what is missing of both.';
revoke execute on function pgq._create_segment(integer, integer) from public;
grant execute on function pgq._create_segment(integer, integer) to pgq_admin, sluice_admin;
