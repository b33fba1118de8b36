-- False in an installation of an earlier release, and for a role that may not run maintenance.
select coalesce(
    pg_catalog.has_function_privilege(pg_catalog.to_regprocedure('sluice.list_extra_maint(oid)'), 'execute'), false
);
