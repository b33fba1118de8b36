-- The number of objects that `drop schema` would lock, and the number of queues and logs to drop per transaction: 0 if
-- the lock table has room for everything.
select n.locks, case when n.locks > sluice._lock_slots() then greatest(sluice._lock_slots() / 4 / 50, 1) else 0 end
from (
    select
        (select pg_catalog.count(*) from pg_catalog.pg_class as c where c.relnamespace = any (s.oids))
        + (select pg_catalog.count(*) from pg_catalog.pg_proc as p where p.pronamespace = any (s.oids))
    from (
        select array(
            select n.oid from pg_catalog.pg_namespace as n where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
        )
    ) as s (oids)
) as n (locks);
