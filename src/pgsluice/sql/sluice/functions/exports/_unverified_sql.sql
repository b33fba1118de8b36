-- As text, so that it becomes a join instead of a call per row.
create or replace function sluice._unverified_sql(export_id bigint)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        'not exists (
            select
            from sluice.exported_page as verified
            where verified.export_id = %s and verified.page = m.msg_id / 256 and verified.msg_ids @> m.msg_id
        )',
        export_id
    );
$$;

comment on function sluice._unverified_sql(bigint) is
    'Return the condition that m, a row of an archive, is not verified by an export.';
revoke execute on function sluice._unverified_sql(bigint) from public;
grant execute on function sluice._unverified_sql(bigint) to sluice_admin, sluice_reader;
