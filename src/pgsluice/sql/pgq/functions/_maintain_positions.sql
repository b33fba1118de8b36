-- A ledger grows by a row per move. When it is large, its subscribers switch to the other one, each with its newest
-- move; once no subscriber uses it, it is truncated. Nothing here waits: a locked subscriber, which is about to move or
-- works on a batch, is left for the next call; until then the large ledger takes space, but hardly time.
--
-- A call truncates or moves, so that the moves have been committed before the truncation: every snapshot taken after
-- pgq._lock_tables has looked for pg_dump shows them, and a dump has all positions, also one that is started during the
-- commit of the truncation.
--
-- 8 MB are some 50,000 moves: rare enough that switching costs nothing, and small enough to stay in memory.
create or replace function pgq._maintain_positions(i_bytes_max bigint default 8388608)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_subscribers_max constant integer := 1000; -- per call; the next call continues
    v_from integer;
    v_sub_key integer;
    v_ledger text;
    v_moved integer := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot maintain positions in a %s transaction', current_setting('transaction_isolation')),
            detail = 'It may not see the last move of a consumer, and would copy an older one.',
            hint = 'run the maintenance in a READ COMMITTED transaction';
    end if;

    for v_ledger in
        select format('position_%s', l.number)
        from (values (0), (1)) as l (number)
        where pg_relation_size(format('pgq.position_%s', l.number)::regclass) >= i_bytes_max
          and not exists (select from pgq.subscriber as s where s.sub_ledger = l.number)
    loop
        -- If another session reads it, the next call tries again.
        continue when not pgq._lock_tables(array[format('pgq.%I', v_ledger)]::regclass[], 'access exclusive', 0);
        -- Checked again under the lock: a registration may have been committed just before it.
        perform from pgq.subscriber as s where format('position_%s', s.sub_ledger) = v_ledger;
        if not found then
            execute format('truncate pgq.%I', v_ledger);
        end if;
    end loop;
    if v_ledger is not null then
        return 0;
    end if;

    -- If both are large, take the one with more subscribers: those of the other one may be locked for long.
    select l.number
    into v_from
    from (values (0), (1)) as l (number)
    where pg_relation_size(format('pgq.position_%s', l.number)::regclass) >= i_bytes_max
    order by (select count(*) from pgq.subscriber as s where s.sub_ledger = l.number) desc
    limit 1;
    for v_sub_key in
        select s.sub_key
        from pgq.subscriber as s
        where s.sub_ledger = v_from
        order by s.sub_key
        limit v_subscribers_max
        for no key update skip locked
    loop
        -- Read after the lock. The copy gets the next number, like any move, so that it is newer than the rows of this
        -- subscriber in the other ledger.
        perform pgq._move(1 - v_from, pgq._position(v_sub_key, v_from));
        update pgq.subscriber as s set sub_ledger = 1 - v_from where s.sub_key = v_sub_key;
        v_moved := v_moved + 1;
    end loop;
    return v_moved;
end;
$$;

comment on function pgq._maintain_positions(bigint) is
    'Move the subscribers of a large ledger of positions to the other one and truncate it; returns how many were moved.';
revoke execute on function pgq._maintain_positions(bigint) from public;
grant execute on function pgq._maintain_positions(bigint) to pgq_admin, sluice_admin;
