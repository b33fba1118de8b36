create or replace function pgmq.validate_routing_key(routing_key text)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(routing_key, '') = '' then
        raise exception using
            message = 'routing_key cannot be NULL or empty',
            hint = 'use words separated by dots, such as orders.created';
    end if;
    if length(routing_key) > 255 then
        raise exception using
            message = format('routing_key length cannot exceed 255 characters, got %s characters', length(routing_key)),
            hint = 'use at most 255 characters';
    end if;
    if routing_key !~ '^[a-zA-Z0-9._-]+$' then
        raise exception using
            message = format('routing_key contains invalid characters. Only alphanumeric, dots, hyphens, and underscores are allowed. Got: %s', routing_key),
            hint = 'use words separated by dots, such as orders.created';
    end if;
    if routing_key like '.%' then
        raise exception using
            message = format('routing_key cannot start with a dot. Got: %s', routing_key),
            hint = 'remove the first dot';
    end if;
    if routing_key like '%.' then
        raise exception using
            message = format('routing_key cannot end with a dot. Got: %s', routing_key),
            hint = 'remove the last dot';
    end if;
    if routing_key like '%..%' then
        raise exception using
            message = format('routing_key cannot contain consecutive dots. Got: %s', routing_key),
            hint = 'put a word between the dots';
    end if;
    return true;
end;
$$;

comment on function pgmq.validate_routing_key(text) is
    'Return true, or raise an error that gives the reason why the routing key is invalid.';
revoke execute on function pgmq.validate_routing_key(text) from public;
grant execute on function pgmq.validate_routing_key(text) to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
