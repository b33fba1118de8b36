-- True if row_problems.sql can run: the function is installed, and this role may call it.
select coalesce(
    pg_catalog.has_function_privilege(pg_catalog.to_regprocedure('sluice.list_log_problems()'), 'execute'), false
);
