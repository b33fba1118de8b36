-- Event triggers that fire on the statements of an installation, with their functions: for `verify`, when one fails.
select pg_catalog.quote_ident(t.evtname), t.evtfoid::pg_catalog.regprocedure::text
from pg_catalog.pg_event_trigger as t
where t.evtenabled in ('O', 'A') and t.evtevent <> 'login'
order by t.evtname;
