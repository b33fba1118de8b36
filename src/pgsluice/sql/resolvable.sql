-- Those of the signatures in the parameter whose types exist: before PostgreSQL 16, to_regprocedure() fails at a missing type.
select s.signature
from pg_catalog.unnest(%s::text[]) as s (signature)
where not exists (
    select
    from pg_catalog.regexp_matches(s.signature, '[(, ]((?:pgmq|pgq|pgq_coop|sluice)[.][a-z0-9_]+)', 'g') as t (names)
    where pg_catalog.to_regtype(t.names[1]) is null
);
