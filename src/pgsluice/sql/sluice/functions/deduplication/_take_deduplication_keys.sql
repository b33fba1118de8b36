/*
 * The part of sluice.send and sluice.send_batch that reads and writes the ledger of keys. Security definer: senders have no rights on
 * the ledger, so that no key stands for a message that was not sent. Calling it without sending concerns the caller's own keys only:
 * another role that uses one of them gets an error that names the caller.
 *
 * The ledger is reached by its index in whatever state its statistics are: in subqueries of one row, and on conflict. Joined, a
 * plan made while it was small would read the whole of it at each call. The senders turn sequential scans off.
 *
 * Writes: sluice.deduplication_key.
 */
create or replace function sluice._take_deduplication_keys(
    i_incarnation bigint, i_is_unlogged boolean, i_keys text[], i_now timestamptz, i_expires_at timestamptz,
    out known_keys text[], out known_ids bigint[], out taken_keys text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_sender constant regrole := sluice._caller_id();
    v_wanted text[] := array(select distinct a.key from unnest(i_keys) as a (key) where a.key is not null);
    v_left integer := cardinality(v_wanted);
    v_taken text[];
    v_found record;
begin
    -- Twice if another session commits a key after it was read and before it is taken.
    loop
        for v_found in
            select a.key, k.msg_id, k.owned_by
            from unnest(v_wanted) as a (key)
            cross join lateral (
                select d.msg_id, d.owned_by
                from sluice.deduplication_key as d
                where d.key = a.key
                  and d.incarnation = i_incarnation
                  and d.is_unlogged = i_is_unlogged
                  and d.expires_at > i_now
                limit 1
            ) as k
        loop
            if v_found.owned_by is distinct from v_sender then
                perform sluice._require_sender(v_found.owned_by, format('deduplication key %L', v_found.key));
            end if;
            known_keys := known_keys || v_found.key;
            known_ids := known_ids || v_found.msg_id;
            v_left := v_left - 1;
        end loop;
        exit when v_left = 0;
        if known_keys is not null then
            v_wanted := array(select unnest(v_wanted) except select unnest(known_keys));
        end if;

        -- On a conflict the row is locked even where it stays as it is, so it cannot be removed before it is read in the next turn.
        with taken as (
            insert into sluice.deduplication_key as k (kind, is_unlogged, incarnation, key, expires_at, owned_by)
            select 'message', i_is_unlogged, i_incarnation, wanted.key, i_expires_at, v_sender
            from unnest(v_wanted) as wanted (key)
            order by wanted.key collate "C"
            on conflict (key, incarnation, is_unlogged) do update
            set msg_id = null, until = null, expires_at = excluded.expires_at, owned_by = excluded.owned_by
            where k.expires_at <= i_now
            returning k.key
        )
        select array_agg(taken.key) into v_taken from taken;
        taken_keys := taken_keys || v_taken;
        v_left := v_left - coalesce(cardinality(v_taken), 0);
        exit when v_left = 0;
        v_wanted := array(select unnest(v_wanted) except select unnest(v_taken));
    end loop;
end;
$$;

comment on function sluice._take_deduplication_keys(bigint, boolean, text[], timestamptz, timestamptz) is
    'Return the known deduplication keys with their msg_ids, and the unknown ones, which it takes for the caller.';
revoke execute on function sluice._take_deduplication_keys(bigint, boolean, text[], timestamptz, timestamptz) from public;
grant execute on function sluice._take_deduplication_keys(bigint, boolean, text[], timestamptz, timestamptz) to sluice_admin, sluice_writer;

-- For one key, in fewer steps: the array form takes twice as long for one key, and this one six times as long for a hundred.
create or replace function sluice._take_deduplication_keys(
    i_incarnation bigint, i_is_unlogged boolean, i_key text, i_now timestamptz, i_expires_at timestamptz,
    out is_taken boolean, out msg_id bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- sluice._caller_id(), whose call would be a tenth of this one.
    v_sender constant regrole := quote_ident(
        case when current_setting('role') = 'none' then session_user else current_setting('role')::name end
    )::regrole;
    v_owned_by regrole;
begin
    select k.msg_id, k.owned_by
    into msg_id, v_owned_by
    from sluice.deduplication_key as k
    where k.key = i_key
      and k.incarnation = i_incarnation
      and k.is_unlogged = i_is_unlogged
      and k.expires_at > i_now;
    if not found then
        insert into sluice.deduplication_key as k (kind, is_unlogged, incarnation, key, expires_at, owned_by)
        values ('message', i_is_unlogged, i_incarnation, i_key, i_expires_at, v_sender)
        on conflict (key, incarnation, is_unlogged) do update
        set msg_id = null, until = null, expires_at = excluded.expires_at, owned_by = excluded.owned_by
        where k.expires_at <= i_now;
        if found then
            is_taken := true;
            return;
        end if;
        -- Another session has committed it since; the row is locked and stays.
        select k.msg_id, k.owned_by
        into msg_id, v_owned_by
        from sluice.deduplication_key as k
        where k.key = i_key
          and k.incarnation = i_incarnation
          and k.is_unlogged = i_is_unlogged;
    end if;
    is_taken := false;
    if v_owned_by <> v_sender then
        perform sluice._require_sender(v_owned_by, format('deduplication key %L', i_key));
    end if;
end;
$$;

comment on function sluice._take_deduplication_keys(bigint, boolean, text, timestamptz, timestamptz) is
    'Return the msg_id of a known deduplication key; take an unknown one for the caller.';
revoke execute on function sluice._take_deduplication_keys(bigint, boolean, text, timestamptz, timestamptz) from public;
grant execute on function sluice._take_deduplication_keys(bigint, boolean, text, timestamptz, timestamptz) to sluice_admin, sluice_writer;
