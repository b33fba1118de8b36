-- Runs once for each statement that inserts into a queue, with the rights of the owner, so that senders need no rights
-- on the throttle.
--
-- The claim of a throttle window, time and transaction in one number, is the value of a sequence: sequences are not
-- transactional, so senders do not wait for each other's commit, and they are in the WAL, so the value survives a
-- crash. A sender that fails or is still open has claimed, but not notified. So a claim counts only once its
-- transaction has committed: until then others notify too. Concurrent senders may both notify. README.md has the
-- guarantees for listeners.
create or replace function pgmq.notify_queue_listeners()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Passed by pgmq.enable_notify_insert. A trigger that PGMQ made has no arguments.
    v_queue_name text := coalesce(tg_argv[0], substr(tg_table_name, 3));
    -- Named by the table, as in pgmq._notify_sequence. A second argument is ignored: it would let a role that can
    -- create triggers set any sequence of this function's owner.
    v_sequence regclass := case
        when tg_table_schema = 'pgmq' and octet_length(tg_table_name) > 63 - octet_length('_NOTIFY')
            then to_regclass(format('pgmq.%I', 'q_' || md5(tg_table_name) || '_NOTIFY'))
        when tg_table_schema = 'pgmq'
            then to_regclass(format('pgmq.%I', tg_table_name || '_NOTIFY'))
    end;
    -- The lowest bits of a claim are those of the transaction id, the others are milliseconds since 1970.
    v_xid_bits constant integer := 20;
    v_xid_mask constant bigint := (1::bigint << v_xid_bits) - 1;
    -- PostgreSQL's own warning threshold. A transaction that notifies into a full notification queue cannot commit.
    v_usage_max constant double precision := 0.5;
    v_now_ms bigint := floor(extract(epoch from clock_timestamp()) * 1000);
    v_xid bigint := pg_current_xact_id()::text;
    v_claim bigint;
    v_age_ms bigint;
    v_interval_ms integer;
    v_channel text;
begin
    select t.throttle_interval_ms
    into v_interval_ms
    from pgmq.notify_insert_throttle as t
    where t.queue_name = v_queue_name;

    if v_interval_ms > 0 then
        v_claim := pg_sequence_last_value(v_sequence);
        v_age_ms := v_now_ms - (v_claim >> v_xid_bits);
        -- A claim in the future is from another server's clock, after a failover. Its transaction is the latest whose
        -- id ends in these bits; after a restore into a new server there may be none.
        if v_age_ms >= 0
            and v_age_ms < v_interval_ms
            and pg_xact_status(greatest(v_xid - ((v_xid - v_claim) & v_xid_mask), 0)::text::xid8) = 'committed'
        then
            return null;
        end if;
    end if;
    if pg_notification_queue_usage() >= v_usage_max then
        return null;
    end if;

    perform setval(v_sequence, (v_now_ms << v_xid_bits) | (v_xid & v_xid_mask));
    -- Truncated to an identifier as LISTEN does: some of PGMQ's queue names leave no room.
    v_channel := ('pgmq.' || tg_table_name || '.' || tg_op)::name;
    perform pg_notify(v_channel, '');
    if tg_table_name <> 'q_' || v_queue_name then
        v_channel := ('pgmq.q_' || v_queue_name || '.' || tg_op)::name;
        perform pg_notify(v_channel, '');
    end if;
    return null;
end;
$$;

comment on function pgmq.notify_queue_listeners() is
    'Trigger function of pgmq.enable_notify_insert: notify at commit, unless throttled.';
revoke execute on function pgmq.notify_queue_listeners() from public;
