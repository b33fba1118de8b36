-- Like sluice._note_deduplication_ids, for one key.
--
-- Writes: sluice.deduplication_key.
create or replace function sluice._note_deduplication_id(
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
      and k.owned_by = quote_ident(
          case when current_setting('role') = 'none' then session_user else current_setting('role')::name end
      )::regrole;
end;
$$;

comment on function sluice._note_deduplication_id(bigint, boolean, text, bigint) is
    'Record the msg_id of a key that the caller took with sluice._take_deduplication_key.';
revoke execute on function sluice._note_deduplication_id(bigint, boolean, text, bigint) from public;
grant execute on function sluice._note_deduplication_id(bigint, boolean, text, bigint) to sluice_admin, sluice_writer;
