-- Drops functions that cannot be replaced in place, and gives tables the columns and constraint names of a new
-- installation.
do $$
declare
    v_object record;
begin
    for v_object in
        select f.signature from adopted_log_function as f where f.action = 'drop'
    loop
        execute format('drop function %s', v_object.signature);
    end loop;

    for v_object in
        select c.conrelid::regclass as table_name, c.conname, wanted.name
        from (values
            ('pgq.queue', 'queue_name_uq', 'queue_queue_name_key'),
            ('pgq.consumer', 'consumer_name_uq', 'consumer_co_name_key'),
            ('pgq.tick', 'tick_queue_fkey', 'tick_tick_queue_fkey')
        ) as wanted (table_name, old_name, name)
        join pg_constraint as c on c.conrelid = wanted.table_name::regclass and c.conname = wanted.old_name
    loop
        execute format('alter table %s rename constraint %I to %I', v_object.table_name, v_object.conname, v_object.name);
    end loop;
end;
$$;

alter table pgq.queue
    alter column queue_switch_step1 drop default,
    alter column queue_switch_step2 drop default,
    alter column queue_switch_step1 type xid8 using queue_switch_step1::text::xid8,
    alter column queue_switch_step2 type xid8 using queue_switch_step2::text::xid8,
    alter column queue_switch_step1 set default pg_current_xact_id(),
    alter column queue_switch_step2 set default pg_current_xact_id();
alter table pgq.tick
    alter column tick_snapshot drop default,
    alter column tick_snapshot type pg_snapshot using tick_snapshot::text::pg_snapshot,
    alter column tick_snapshot set default pg_current_snapshot();
-- Includes all event tables with their indexes.
alter table pgq.event_template
    alter column ev_txid drop default,
    alter column ev_txid type xid8 using ev_txid::text::xid8,
    alter column ev_txid set default pg_current_xact_id();

-- They become views; their rows are migrated later.
alter table pgq.subscription rename to adopted_subscription;
alter table pgq.retry_queue rename to adopted_retry_queue;
