/*
 * The ledgers of the share groups only grow. When the tables that new rows go to have grown, what is still needed of them is copied
 * to the other ones, where new rows go from then on, and they are emptied. A copy costs what it keeps: so the next one waits until
 * they have grown to twice what this one kept, and each row pays for one more row's copy, however much is leased or waits.
 *
 * What is needed? Of each group the newest claim, which says how far it is; every claim that is open, with its outcomes and the
 * redeliveries that it has; and the redeliveries that are yet to be read. Open means what it means to sluice._move_group: events of
 * it are not settled, or they are, but the outcome is mail that no claim has read. The newest claim names one before which none is
 * open. What settled claims said is read, and what came of it is in the redeliveries or among the dead. A claim that is gone is not
 * mistaken for one that never was: its number is below the newest one's. Of the ledgers of keys: the events of the claims that are
 * kept; of each key its newest turn, unless it is free and nothing waits; and what this says is waiting.
 *
 * Why is nothing lost? The lock is stronger than any other, and a transaction that has read or written a table keeps its lock on it to
 * the end. So when this one is granted,
 *
 * - no claim is under way: it looks at which tables are the current ones, reads the newest claim there, and looks again; from then on
 *   it has a lock that stands against this one. So the newest one is the newest, and is always in a current table, if the group has
 *   any row there;
 * - no acknowledgement or renewal is: it has locked a claim's row. It either is committed and seen by the copy, which is a statement
 *   after the lock, or it has not begun, and will find the claim, and number its outcome, where the copy is;
 * - nobody else has chosen a table and not yet written into it, but for the first row of a group that is being created: it may come
 *   to lie in a table that is not current. There it is found as long as it is the only one, until the next turn takes it along.
 *   Redeliveries are read from both tables. Outcomes go to where their claim is, and are taken along with it, so the key on their
 *   number holds.
 *
 * Unread mail stays unread: the copy has the transaction that wrote it, by which it is read.
 *
 * One who waited at the door reads after it got in. A transaction with an old snapshot sees neither what is gone nor the copy: it is
 * told to try again, see sluice._hold_claim. For its sake the row of sluice.ledger changes with every turn.
 */
create or replace function sluice._maintain_ledgers(i_bytes_max bigint default 8388608, out action text, out reason text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    -- In constant use there is always somebody in the tables, if only for a moment. When they are twice as large as they were to
    -- become, that moment is waited for; claims wait as long at the most.
    v_wait_ms_max constant integer := 100;
    v_ledgers constant text[] := array['claim', 'outcome', 'redelivery', 'key_event', 'key_waiting', 'key_turn'];
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
        reason := 'somebody else did it';
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
                     and (not o.is_mail or pg_visible_in_snapshot(o.outcome_txid, n.mail_snapshot))
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
                select k.group_id, k.key from sluice.key_waiting_%1$s as k
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
            insert into sluice.key_waiting_%2$s
            select w.*
            from turns as t
            join sluice.key_waiting_%1$s as w
                on w.group_id = (t.turn).group_id
                and w.key = (t.turn).key
                and (
                    w.is_returned and w.waiting_id = any ((t.turn).returned)
                    or not w.is_returned and w.waiting_id > (t.turn).upto_waiting
                )
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
    using v_tables[1], v_tables[6];
    execute (select format('truncate %s', string_agg(t.name::text, ', ')) from unnest(v_tables) as t (name));
    update sluice.ledger as l
    set number = 1 - v_ledger.number,
        switched_at = clock_timestamp(),
        kept_bytes = (
            select sum(pg_table_size(format('sluice.%s_%s', t.name, 1 - v_ledger.number)::regclass))
            from unnest(v_ledgers) as t (name)
        );
    if pgq._dumped_by() is not null then
        -- It began after the look under the lock, and its snapshot sees neither the copy nor what is truncated.
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
    'Empty the ledgers of the share groups when they are large, and keep what is still needed; nulls when they are not.';
revoke execute on function sluice._maintain_ledgers(bigint) from public;
grant execute on function sluice._maintain_ledgers(bigint) to pgq_admin, sluice_admin;
