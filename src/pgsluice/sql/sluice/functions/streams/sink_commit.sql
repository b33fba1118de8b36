-- A concurrent transaction with the same sink waits here for the end of the first, and then learns whether it committed. A
-- stale writer finds its version or a later one, and adds nothing.
--
-- Security definer: the ledger counts for all roles, and none may set it back. A sink belongs to the role that first commits
-- to it: a version of another writer would make the owner's next one look committed.
create or replace function sluice.sink_commit(
    sink_id text, version bigint, detail jsonb default null, keep interval default null
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_caller constant regrole := sluice._caller_id();
    v_is_new boolean;
begin
    perform sluice._require_sink(sink_id, version);
    perform pgq._commit_durably();
    insert into sluice.sink_commit as c (kind, key, version, detail, expires_at, owned_by)
    values ('sink', sink_commit.sink_id, sink_commit.version, sink_commit.detail, now() + keep, v_caller)
    on conflict on constraint sink_commit_pkey do update
    set version = excluded.version,
        detail = excluded.detail,
        expires_at = excluded.expires_at,
        owned_by = case
            when exists (select from pg_roles as r where r.oid = c.owned_by) then c.owned_by else excluded.owned_by
        end
    where c.version < excluded.version;
    v_is_new := found;
    perform sluice._require_sink_owner(sink_id, false);
    return v_is_new;
end;
$$;

comment on function sluice.sink_commit(text, bigint, jsonb, interval) is
    'True if this version of a sink is new; false if it or a later one was committed. Call it in the transaction that writes the rows. The version is kept with its detail for the time keep, null: forever.';
revoke execute on function sluice.sink_commit(text, bigint, jsonb, interval) from public;
grant execute on function sluice.sink_commit(text, bigint, jsonb, interval) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
