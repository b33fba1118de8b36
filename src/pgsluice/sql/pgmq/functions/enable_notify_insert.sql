create or replace function pgmq.enable_notify_insert(queue_name text, throttle_interval_ms integer default 250)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_sequence text := pgmq._notify_sequence(queue_name);
    v_table oid;
    v_grant record;
begin
    if throttle_interval_ms < 0 then
        raise exception using
            message = 'throttle_interval_ms must be non-negative',
            detail = format('It is %s.', throttle_interval_ms),
            hint = 'use 0 to notify of every statement, or a number of milliseconds';
    end if;
    perform pgmq.acquire_queue_lock(queue_name);

    select c.oid
    into v_table
    from pg_class as c
    where c.relnamespace = 'pgmq'::regnamespace and c.relname = v_queue::name and c.relkind in ('r', 'p');
    if not found then
        raise exception using
            table = coalesce(queue_name, 'NULL'),
            datatype = 'QU003',
            message = format(
                'Queue "%s" does not exist. Create it first using pgmq.create()', coalesce(queue_name, '<NULL>')
            ),
            hint = 'pgmq.list_queues() lists the existing queues';
    end if;
    perform from pgmq.meta as m where m.queue_name = enable_notify_insert.queue_name;
    if not found then
        raise exception using
            errcode = 'foreign_key_violation',
            message = 'insert or update on table "notify_insert_throttle" violates foreign key constraint '
                '"notify_insert_throttle_meta_queue_name_fk"',
            detail = format('No queue is named %L in this spelling.', queue_name),
            hint = 'pgmq.list_queues() lists the existing queues; names are case-sensitive';
    end if;

    perform pgmq._require_own_table(v_queue);
    -- Every process of a service may enable it at its start. A trigger that is already correct is left alone, so that
    -- no senders or readers are locked out.
    perform
    from pg_trigger as t
    where t.tgrelid = v_table
      and t.tgname = 'trigger_notify_queue_insert_listeners'
      and t.tgfoid = 'pgmq.notify_queue_listeners()'::regprocedure
      and t.tgtype & 1 = 0 -- a statement trigger, unlike PGMQ's
      and t.tgenabled <> 'D'
      and to_regclass(v_sequence) is not null;
    if not found then
        perform pgmq.disable_notify_insert(queue_name);
        -- Owned by the table, so that it is dropped with it.
        execute format('create sequence %s', v_sequence);
        execute format('alter sequence %s owned by pgmq.%I.vt', v_sequence, v_queue);
        for v_grant in
            select *
            from (values
                ('sluice_admin', 'select, update'),
                ('sluice_writer', 'select'),
                ('sluice_reader', 'select'),
                ('sluice_monitor', 'select')
            ) as wanted (role_name, privileges)
            where to_regrole(wanted.role_name) is not null
        loop
            execute format('grant %s on sequence %s to %I', v_grant.privileges, v_sequence, v_grant.role_name);
        end loop;
        execute format(
            'create trigger trigger_notify_queue_insert_listeners
             after insert on pgmq.%I
             for each statement
             execute function pgmq.notify_queue_listeners(%L, %L)',
            v_queue, queue_name, v_sequence
        );
    end if;

    insert into pgmq.notify_insert_throttle (queue_name, throttle_interval_ms)
    values (queue_name, throttle_interval_ms)
    on conflict on constraint notify_insert_throttle_queue_name_key do update
    set throttle_interval_ms = excluded.throttle_interval_ms,
        last_notified_at = excluded.last_notified_at;
    perform setval(v_sequence::regclass, 1, false);
end;
$$;

comment on function pgmq.enable_notify_insert(text, integer) is
    'Notify listeners of new messages at commit, at most once per throttle_interval_ms milliseconds.';
revoke execute on function pgmq.enable_notify_insert(text, integer) from public;
grant execute on function pgmq.enable_notify_insert(text, integer) to sluice_admin;
