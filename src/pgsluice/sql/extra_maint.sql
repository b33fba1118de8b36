-- For `verify` and `status`: functions in queue_extra_maint that maintenance by the current role does not call.
select 'log', extra.log_name,
    pg_catalog.format('its maintenance function %s is not called: %s', extra.function_name, extra.refusal),
    'remove it from queue_extra_maint in pgq.queue, or give it to the owner of the schemas'
from sluice.list_extra_maint(pg_catalog.quote_ident(current_user)::pg_catalog.regrole::oid) as extra
where extra.refusal is not null
order by extra.log_name, extra.extra_position;
