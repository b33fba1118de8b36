/*
 * The ledgers of the share groups are append-only, in two sets of tables. When the current set has grown, its needed rows are copied to the other
 * set, which becomes the current one, and the first is truncated. The cost of a copy is in what it keeps: so the next one waits until the tables have
 * twice the size of what this one kept. The cost per appended row is constant, however many events are leased or waiting.
 *
 * The needed rows are: of each group the newest claim, which is its cursor; every open claim, with its outcomes and its redeliveries; and the unread
 * redeliveries. Open means the same as in sluice._move_group: some of its events are not settled, or one of its outcomes is in the acknowledgement
 * backlog. The newest claim names the first claim that can be open. The outcomes of settled claims have been read, and have become redeliveries or
 * dead letters. A deleted claim is told from one that never existed by its number: it is below the newest one's. Of the ledgers of keys these rows
 * are needed: the events of the kept claims; of each key the newest turn, unless the key is free and nothing waits for it; the waiting events
 * that this turn names; and the left events that the newest claim names.
 *
 * No row is lost, because the lock is ACCESS EXCLUSIVE, and a transaction that has read or written a table keeps its lock on it until it ends. When
 * this lock is granted,
 *
 * - no claim is running: a claim reads which tables are current, reads the newest claim there, and reads again which are current; from then on it
 *   holds a lock that conflicts with this one. So the newest claim cannot change, and is always in a current table if the group has any row there;
 * - no acknowledgement or renewal is running: it locks a claim's row. Either it has committed and the copy, a statement after the lock, sees it; or
 *   it has not started, and will find the claim, and number its outcome, in the tables of the copy;
 * - no other session has chosen a table and not yet written to it, except for the first row of a group that is being created: that row may be written
 *   to a table that is not current. It is found there as long as it is the only one, until the next switch copies it. Redeliveries are read from both
 *   tables. Outcomes are written to the table of their claim and copied with it, so the unique key on their number holds.
 *
 * Unread outcomes stay unread: the copy keeps the id of the transaction that wrote them, which decides that.
 *
 * A READ COMMITTED session that waits for the lock reads after it was released. A transaction with an older snapshot sees neither the truncated rows
 * nor the copy: it gets a serialization error, see sluice._hold_claim. For this error each switch updates the row of sluice.ledger.
 */
create or replace function sluice._maintain_ledgers(i_bytes_max bigint default 8388608, out action text, out reason text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    -- Under constant load some session always holds a short lock on the tables. When they exceed twice the limit, this call waits for the
    -- lock; claims then wait for at most the same time.
    v_wait_ms_max constant integer := 100;
    v_ledgers constant text[] := array['claim', 'outcome', 'redelivery', 'key_event', 'key_turn', 'waiting_event'];
    v_ledger sluice.ledger;
    v_tables regclass[];
    v_bytes bigint;
    v_bytes_max bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'SG004',
            message = format('cannot maintain share groups in a %s transaction', current_setting('transaction_isolation')),
            detail = 'It may not see the last claims, and would not keep them.',
            hint = 'run the maintenance in a READ COMMITTED transaction';
    end if;
    select l.* into v_ledger from sluice.ledger as l;
    v_tables := array(
        select format('sluice.%s_%s', t.name, v_ledger.number)::regclass
        from unnest(v_ledgers) with ordinality as t (name, position)
        order by t.position
    );
    v_bytes_max := greatest(i_bytes_max, 2 * v_ledger.kept_bytes);
    v_bytes := (select sum(pg_table_size(t.name)) from unnest(v_tables) as t (name));
    if v_bytes < v_bytes_max then
        return;
    end if;
    action := 'kept';
    perform from pgq.queue as q where pgq._is_restored(q.queue_id);
    if found then
        reason := 'an event log was restored from a dump and not repaired; call sluice.after_restore()';
        return;
    end if;
    if not pgq._lock_tables(v_tables, 'access exclusive', case when v_bytes < 2 * v_bytes_max then 0 else v_wait_ms_max end) then
        raise lock_not_available;
    end if;
    perform from sluice.ledger as l where l.number = v_ledger.number;
    if not found then
        reason := 'another session did it';
        return;
    end if;

    execute format(
        'with newest as materialized (
            select c.*
            from sluice.share_group as g
            cross join lateral (
                select c.* from sluice.claim as c where c.group_id = g.group_id order by c.claim_id desc limit 1
            ) as c
        ),
        needed as materialized (
            select c as claim, c.tableoid
            from newest as n
            join sluice.claim as c on c.group_id = n.group_id and c.claim_id >= n.open_claim
            where c.claim_id = n.claim_id
               or c.events + c.redeliveries > (
                   select coalesce(sum(o.events), 0)
                   from sluice.outcome as o
                   where o.group_id = c.group_id
                     and o.claim_id = c.claim_id
                     and (not o.is_backlog or pg_visible_in_snapshot(o.outcome_txid, n.backlog_snapshot))
               )
        ),
        claims as (
            insert into sluice.claim_%2$s
            select (n.claim).* from needed as n where n.tableoid = $1
        ),
        outcomes as (
            insert into sluice.outcome_%2$s
            select o.*
            from needed as n
            join sluice.outcome_%1$s as o on o.group_id = (n.claim).group_id and o.claim_id = (n.claim).claim_id
            where n.tableoid = $1
        ),
        key_events as (
            insert into sluice.key_event_%2$s
            select e.*
            from needed as n
            join sluice.key_event_%1$s as e on e.group_id = (n.claim).group_id and e.claim_id = (n.claim).claim_id
        ),
        turns as materialized (
            select t.turn, t.tableoid
            from newest as n
            join (
                select k.group_id, k.key from sluice.key_turn_%1$s as k
                union
                select w.group_id, w.lane from sluice.waiting_event_%1$s as w where not w.is_left
            ) as k on k.group_id = n.group_id
            cross join lateral (
                select t as turn, t.tableoid
                from sluice.key_turn as t
                where t.group_id = k.group_id and t.key = k.key
                order by t.turn_id desc
                limit 1
            ) as t
            where (t.turn).claim_id is not null or (t.turn).waiting > 0 or (t.turn).returned <> ''{}''
        ),
        key_turns as (
            insert into sluice.key_turn_%2$s
            select (t.turn).* from turns as t where t.tableoid = $2
        ),
        key_waiting as (
            insert into sluice.waiting_event_%2$s
            select w.*
            from turns as t
            join sluice.waiting_event_%1$s as w
                on w.group_id = (t.turn).group_id
                and not w.is_left
                and w.lane = (t.turn).key
                and (
                    w.is_returned and w.waiting_id = any ((t.turn).returned)
                    or not w.is_returned and w.waiting_id > (t.turn).upto_waiting
                )
        ),
        left_events as (
            insert into sluice.waiting_event_%2$s
            select l.*
            from newest as n
            cross join lateral jsonb_each(n.left_lanes) as t (lane, state)
            join sluice.waiting_event_%1$s as l
                on l.group_id = n.group_id
                and l.is_left
                and l.lane = t.lane
                and not l.is_returned
                and l.waiting_id > (t.state ->> ''upto'')::bigint
        )
        insert into sluice.redelivery_%2$s
        select r.*
        from newest as n
        join sluice.redelivery_%1$s as r
            on r.group_id = n.group_id and (r.due_at, r.redelivery_id) > (n.upto_due, n.upto_redelivery)
        union all
        select r.*
        from needed as n
        join sluice.redelivery_%1$s as r
            on r.group_id = (n.claim).group_id
            and (r.due_at, r.redelivery_id) > ((n.claim).from_due, (n.claim).from_redelivery)
            and (r.due_at, r.redelivery_id) <= ((n.claim).upto_due, (n.claim).upto_redelivery)',
        v_ledger.number, 1 - v_ledger.number
    )
    using v_tables[1], v_tables[5];
    execute (select format('truncate %s', string_agg(t.name::text, ', ')) from unnest(v_tables) as t (name));
    update sluice.ledger as l
    set number = 1 - v_ledger.number,
        switched_at = clock_timestamp(),
        kept_bytes = (
            select sum(pg_table_size(format('sluice.%s_%s', t.name, 1 - v_ledger.number)::regclass))
            from unnest(v_ledgers) as t (name)
        );
    if pgq._dumped_by() is not null then
        -- The dump started after the check under the lock; its snapshot sees neither the copy nor the truncated rows.
        raise lock_not_available;
    end if;
    action := 'emptied';
    return;
exception
    when lock_not_available then
        -- The session that holds the lock may have ended by now.
        reason := coalesce(pgq._locked_by(v_tables::oid[]), 'locked');
    when object_in_use then
        reason := 'this session reads it';
end;
$$;

comment on function sluice._maintain_ledgers(bigint) is
    'Empty the ledgers of the share groups if they are large, and keep the needed rows; returns nulls if they are not.';
revoke execute on function sluice._maintain_ledgers(bigint) from public;
grant execute on function sluice._maintain_ledgers(bigint) to pgq_admin, sluice_admin;
