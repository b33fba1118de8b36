-- For catalog.sql: our schemas whose objects are installed (only those of pgmq after `schema install --tables-only`), the
-- roles of the server, and the owner of the schemas.
select
    array(
        select s.name
        from pg_catalog.unnest(array['pgmq', 'pgq', 'pgq_coop', 'sluice']) as s (name)
        where s.name = 'pgmq' or exists (select from sluice.migration as m where m.version not like 'pgmq/%')
    ),
    array(select r.rolname::text from pg_catalog.pg_roles as r union all select 'public'),
    (
        select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(n.nspowner))
        from pg_catalog.pg_namespace as n
        where n.nspname = 'sluice'
    );
