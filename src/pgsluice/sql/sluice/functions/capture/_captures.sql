-- The triggers are the only record of captures: a separate table could disagree with them. Options are null where someone has
-- edited a trigger so that they are malformed: that capture must not stop others.
create or replace function sluice._captures()
returns table (
    source_table oid, trigger_table oid, trigger_name name, operation text, log_name text, options jsonb, enabled boolean
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select coalesce(pg_partition_root(t.tgrelid)::oid, t.tgrelid), t.tgrelid, t.tgname,
        case
            when t.tgfoid = 'sluice._begin_capture()'::regprocedure then 'begin'
            when t.tgtype & 4 > 0 then 'insert'
            when t.tgtype & 16 > 0 then 'update'
            when t.tgtype & 8 > 0 then 'delete'
            else 'truncate'
        end,
        convert_from(substring(t.tgargs from 1 for a.first_bytes), getdatabaseencoding()),
        case t.tgnargs
            when 0 then null
            when 1 then '{}' -- created before captures had options
            else sluice._capture_options(
                convert_from(
                    substring(o.others from 1 for greatest(position(E'\\x00'::bytea in o.others) - 1, 0)), getdatabaseencoding()
                )
            )
        end,
        t.tgenabled in ('O', 'A')
    from pg_trigger as t
    -- tgargs holds zero-terminated arguments: event log, options, and in a partition the name of its root.
    cross join lateral (select greatest(position(E'\\x00'::bytea in t.tgargs) - 1, 0)) as a (first_bytes)
    cross join lateral (select substring(t.tgargs from a.first_bytes + 2)) as o (others)
    where t.tgfoid in ('sluice.capture_changes()'::regprocedure, 'sluice._begin_capture()'::regprocedure);
end;
$$;

comment on function sluice._captures() is
    'Return the triggers of all captures: the captured table, the table that has the trigger, and its arguments.';
revoke execute on function sluice._captures() from public;
grant execute on function sluice._captures() to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
