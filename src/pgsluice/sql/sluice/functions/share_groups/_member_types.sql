-- A type that a handler is declared for is never taken by a member without such a handler, and other types only by a member that handles all others. If no
-- handler is declared for a type, every member takes its events, to accept or dead-letter them, unless the group leaves them.
create or replace function sluice._member_types(
    i_group sluice.share_group, i_types text[], i_others boolean, out types text[], out is_except boolean
)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    is_except := i_types is null or i_others or not i_group.has_others and i_group.unhandled <> 'leave';
    types := case
        when i_types is null then '{}'::text[]
        when is_except then array(select t.name from unnest(i_group.types) as t (name) where t.name <> all (i_types))
        else i_types
    end;
end;
$$;

comment on function sluice._member_types(sluice.share_group, text[], boolean) is
    'Return the event types that a member of a share group claims: only the types, or all except them. Null types: all.';
revoke execute on function sluice._member_types(sluice.share_group, text[], boolean) from public;
grant execute on function sluice._member_types(sluice.share_group, text[], boolean) to pgq_admin, sluice_admin;
