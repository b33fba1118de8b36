/*
 * Ticks, positions and events contain transaction ids, which are valid in one server only. In a restored dump they name other
 * transactions: future ones, or ones that ended at another time. pgq._is_restored detects this.
 *
 * The order that the ids express is kept, with ids of this server. The positions of consumers, the ends of open batches, the
 * windows of open claims and of the newest claim of each group, and the newest tick are boundaries, in the order of their
 * snapshots. Every event lies between two of them: behind the last one that does not see it, before the first one that does.
 * The n-th boundary gets a snapshot that sees the lowest n ids, from 3 on, and its events the n-th of these ids, which ended at
 * initdb. Events behind the last boundary get the id of this transaction: the next tick sees them. Ticks between the boundaries
 * are deleted.
 *
 * Events and outcomes written here since the restore keep their ids (pgq._loaded_by). No boundary sees them.
 *
 * Unread outcomes become this transaction's, so that the next claim reads them. Leases end at their original times. Settled
 * claims are deleted, as when the ledgers are truncated.
 *
 * Called for all logs, it skips one that fails, which stays as restored: a warning and sluice.list_failures() name it, and its
 * row has null events. A row without a log: the retry entries were not repaired.
 */
create or replace function sluice.after_restore(inout log_name text default null, out events bigint)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_is_one constant boolean := log_name is not null;
    v_first_id constant bigint := 3; -- PostgreSQL's first normal id
    v_first_snapshot constant pg_snapshot := '4:4:'; -- which sees nothing else
    v_queue record;
    v_subscriber record;
    v_position pgq.position_0;
    v_last pgq.tick;
    v_is_foreign boolean;
    v_ticks bigint[];
    v_snapshots text[]; -- as text, because pg_snapshot has no equality
    v_ids xid8[];
    v_renewed pg_snapshot[];
    v_table regclass;
    v_rows bigint;
    v_hint text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot repair an event log in a %s transaction', current_setting('transaction_isolation')),
            hint = 'repair it in a READ COMMITTED transaction';
    end if;
    if v_is_one then
        perform pgq._require_log(log_name);
    end if;

    for v_queue in
        select q.queue_id, q.queue_name
        from pgq.queue as q
        where after_restore.log_name is null or q.queue_name = after_restore.log_name
        order by q.queue_name
    loop
        log_name := v_queue.queue_name;
        events := null;
        -- A log that fails must not stop the others.
        begin
            perform from pgq.queue as q where q.queue_id = v_queue.queue_id for update;
            continue when not found;
            perform pgq._lock_ticks(v_queue.queue_id, true); -- no tick meanwhile
            execute format('lock table pgq.%I in share row exclusive mode', format('event_%s', v_queue.queue_id));
            perform sluice._wait_for_group(g) from sluice.share_group as g where g.queue_id = v_queue.queue_id order by g.group_id;
            v_last := pgq._last_tick(v_queue.queue_id);
            v_is_foreign := pgq._is_restored(v_queue.queue_id) or pgq._is_ahead(v_last.tick_snapshot);
            if not v_is_foreign then
                if v_is_one then
                    raise exception using
                        errcode = 'PQ004',
                        message = format('event log %L needs no repair', log_name),
                        detail = 'Its ticks and events fit the transactions of this server.',
                        hint = 'call it without a name for all logs: those that fit are left alone';
                end if;
                perform sluice._note_failure('repair'::text, log_name, null::text, null::text);
                continue;
            end if;

            perform from pgq.subscriber as s where s.sub_queue = v_queue.queue_id for update;
            -- Concurrent outcomes would be lost below.
            lock table sluice.claim, sluice.outcome in share row exclusive mode;
            -- The newest claim of each group determines the outcomes that were read.
            foreach v_table in array array['sluice.outcome_0', 'sluice.outcome_1']::regclass[]
            loop
                execute format(
                    'update only %s as o
                     set outcome_txid = case
                         when o.is_backlog and not pg_visible_in_snapshot(o.outcome_txid, (sluice._last_claim(o.group_id)).backlog_snapshot)
                             then pg_current_xact_id()
                         else $1
                     end
                     from sluice.share_group as g
                     where g.queue_id = $2 and o.group_id = g.group_id and o.xmin = any ($3)',
                    v_table
                )
                using v_first_id::text::xid8, v_queue.queue_id, pgq._loaded_by(v_table, 'outcome_txid');
            end loop;
            update sluice.claim as c
            set backlog_snapshot = v_first_snapshot
            from sluice.share_group as g
            where g.queue_id = v_queue.queue_id and c.group_id = g.group_id;
            perform sluice._forget_settled(v_queue.queue_id);
            -- Without nulls: a consumer without an open batch has no next tick.
            v_ticks := array(
                select t.tick_id
                from (
                    select v_last.tick_id
                    union
                    select unnest(array[s.pos_last_tick, s.pos_next_tick]) from pgq.standing as s where s.sub_queue = v_queue.queue_id
                    union
                    select unnest(array[c.after_tick, c.upto_tick])
                    from sluice.claim as c
                    join sluice.share_group as g on g.group_id = c.group_id
                    where g.queue_id = v_queue.queue_id
                ) as t
                where t.tick_id is not null
            );
            -- Snapshots of one server are in this order: a transaction that ended for one has ended for all later ones.
            select array_agg(b.snapshot order by b.number),
                array_agg((v_first_id + b.number)::text::xid8 order by b.number),
                array_agg(format('%1$s:%1$s:', v_first_id + b.number + 1)::pg_snapshot order by b.number)
            into v_snapshots, v_ids, v_renewed
            from (
                select bounds.snapshot,
                    row_number() over (
                        order by pg_snapshot_xmax(bounds.snapshot::pg_snapshot), pg_snapshot_xmin(bounds.snapshot::pg_snapshot),
                            (select count(*) from pg_snapshot_xip(bounds.snapshot::pg_snapshot)) desc
                    ) - 1
                from (
                    select t.tick_snapshot::text from pgq.tick as t where t.tick_queue = v_queue.queue_id and t.tick_id = any (v_ticks)
                    union
                    select unnest(array[s.pos_last_snapshot, s.pos_next_snapshot])::text
                    from pgq.standing as s
                    where s.sub_queue = v_queue.queue_id
                    union
                    select unnest(array[c.after_snapshot, c.upto_snapshot])::text
                    from sluice.claim as c
                    join sluice.share_group as g on g.group_id = c.group_id
                    where g.queue_id = v_queue.queue_id
                ) as bounds (snapshot)
                where bounds.snapshot is not null
            ) as b (snapshot, number);
            if v_first_id + cardinality(v_snapshots) >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint then
                raise exception using
                    errcode = 'PQ004',
                    message = format('event log %L has more positions than this server has had transactions', v_queue.queue_name),
                    hint = 'call it again after a few thousand transactions, such as select pg_current_xact_id()';
            end if;

            events := 0;
            for v_table in
                select t.oid::regclass
                from pg_class as t
                left join pg_inherits as h on h.inhrelid = t.oid
                where format('pgq.event_%s', v_queue.queue_id)::regclass in (t.oid, h.inhparent)
            loop
                execute format(
                    'update only %s as e
                     set ev_txid = coalesce(
                         (
                             select b.txid
                             from unnest($1, $2) as b (txid, snapshot)
                             where pg_visible_in_snapshot(e.ev_txid, b.snapshot::pg_snapshot)
                             order by b.txid
                             limit 1
                         ),
                         $3
                     )
                     where e.xmin = any ($4)',
                    v_table
                )
                using v_ids, v_snapshots, pg_current_xact_id(), pgq._loaded_by(v_table, 'ev_txid');
                get diagnostics v_rows = row_count;
                events := events + v_rows;
            end loop;
            execute format('delete from pgq.%I as t where t.tick_id <> all ($1)', format('tick_%s', v_queue.queue_id))
            using v_ticks;
            execute format(
                'update pgq.%I as t set tick_snapshot = $2[array_position($1, t.tick_snapshot::text)]',
                format('tick_%s', v_queue.queue_id)
            )
            using v_snapshots, v_renewed;
            for v_subscriber in
                select s.sub_key, s.sub_ledger from pgq.subscriber as s where s.sub_queue = v_queue.queue_id order by s.sub_key
            loop
                v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
                v_position.pos_last_snapshot := v_renewed[array_position(v_snapshots, v_position.pos_last_snapshot::text)];
                v_position.pos_next_snapshot := v_renewed[array_position(v_snapshots, v_position.pos_next_snapshot::text)];
                perform pgq._move(v_subscriber.sub_ledger, v_position);
            end loop;
            update sluice.claim as c
            set after_snapshot = v_renewed[array_position(v_snapshots, c.after_snapshot::text)],
                upto_snapshot = v_renewed[array_position(v_snapshots, c.upto_snapshot::text)]
            from sluice.share_group as g
            where g.queue_id = v_queue.queue_id and c.group_id = g.group_id;
            update pgq.queue as q
            set queue_switch_step1 = pg_current_xact_id(),
                queue_switch_step2 = pg_current_xact_id()
            where q.queue_id = v_queue.queue_id;
            perform pgq._mark_origin(v_queue.queue_id);
            perform sluice._note_failure('repair'::text, log_name, null::text, null::text);
        exception
            when others then
                if v_is_one then
                    raise;
                end if;
                get stacked diagnostics v_hint = pg_exception_hint;
                raise warning using
                    errcode = sqlstate, message = format('event log %s is not repaired: %s', log_name, sqlerrm), hint = v_hint;
                perform sluice._note_failure('repair'::text, log_name, null::text, format('%s (%s)', sqlerrm, sqlstate));
                events := null;
        end;
        return next;
    end loop;

    -- Entries that all logs share.
    begin
        perform pgq._adopt_retries();
        perform sluice._note_failure('repair retries'::text, null::text, null::text, null::text);
    exception
        when others then
            get stacked diagnostics v_hint = pg_exception_hint;
            raise warning using
                errcode = sqlstate, message = format('retried and delayed events are not repaired: %s', sqlerrm), hint = v_hint;
            perform sluice._note_failure('repair retries'::text, null::text, null::text, format('%s (%s)', sqlerrm, sqlstate));
            log_name := null;
            events := null;
            return next;
    end;
end;
$$;

comment on function sluice.after_restore(text) is
    'Repair one event log or all after a dump was restored; returns the repaired logs with their restored events. Called for all, it skips a failing one with a warning and null events.';
revoke execute on function sluice.after_restore(text) from public;
grant execute on function sluice.after_restore(text) to pgq_admin, sluice_admin;
