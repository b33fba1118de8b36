-- Only keys that the caller has taken and not sent yet: a recorded id is never replaced. Those that a duplicate may
-- change (until is not null) are written with their messages by sluice.send: a sender that recorded another's id could change it.
--
-- Writes: sluice.deduplication_key.
create or replace function sluice._note_deduplication_ids(
    i_incarnation bigint, i_is_unlogged boolean, i_keys text[], i_msg_ids bigint[], i_expires_at timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- On conflict, because every row exists: a join could scan the whole table.
    insert into sluice.deduplication_key as k (kind, is_unlogged, incarnation, key, msg_id, expires_at, owned_by)
    select 'message', i_is_unlogged, i_incarnation, sent.key, sent.msg_id, i_expires_at, sender.id
    from unnest(i_keys, i_msg_ids) as sent (key, msg_id)
    cross join (select sluice._caller_id()) as sender (id)
    where sent.key is not null
    on conflict (key, incarnation, is_unlogged) do update
    set msg_id = excluded.msg_id
    where k.msg_id is null and k.until is null and k.owned_by = excluded.owned_by;
end;
$$;

comment on function sluice._note_deduplication_ids(bigint, boolean, text[], bigint[], timestamptz) is
    'Record the msg_ids of keys that the caller took with sluice._take_deduplication_keys.';
revoke execute on function sluice._note_deduplication_ids(bigint, boolean, text[], bigint[], timestamptz) from public;
grant execute on function sluice._note_deduplication_ids(bigint, boolean, text[], bigint[], timestamptz) to sluice_admin, sluice_writer;

create or replace function sluice._note_deduplication_ids(
    i_incarnation bigint, i_is_unlogged boolean, i_key text, i_msg_id bigint
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update sluice.deduplication_key as k
    set msg_id = i_msg_id
    where k.key = i_key
      and k.incarnation = i_incarnation
      and k.is_unlogged = i_is_unlogged
      and k.msg_id is null
      and k.until is null
      and k.owned_by = quote_ident(
          case when current_setting('role') = 'none' then session_user else current_setting('role')::name end
      )::regrole;
end;
$$;

comment on function sluice._note_deduplication_ids(bigint, boolean, text, bigint) is
    'Record the msg_id of a key that the caller took with sluice._take_deduplication_keys.';
revoke execute on function sluice._note_deduplication_ids(bigint, boolean, text, bigint) from public;
grant execute on function sluice._note_deduplication_ids(bigint, boolean, text, bigint) to sluice_admin, sluice_writer;
