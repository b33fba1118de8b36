-- Like sluice._take_deduplication_keys, for the reasons given there, in fewer steps.
--
-- Writes: sluice.deduplication_key.
create or replace function sluice._take_deduplication_key(
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
        set msg_id = null, expires_at = excluded.expires_at, owned_by = excluded.owned_by
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

comment on function sluice._take_deduplication_key(bigint, boolean, text, timestamptz, timestamptz) is
    'Return the msg_id of a known deduplication key; take an unknown one for the caller.';
revoke execute on function sluice._take_deduplication_key(bigint, boolean, text, timestamptz, timestamptz) from public;
grant execute on function sluice._take_deduplication_key(bigint, boolean, text, timestamptz, timestamptz) to sluice_admin, sluice_writer;
