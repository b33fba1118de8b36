create or replace function pgmq.validate_topic_pattern(pattern text)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(pattern, '') = '' then
        raise exception using
            message = 'pattern cannot be NULL or empty',
            hint = 'use words separated by dots, such as orders.created';
    end if;
    if length(pattern) > 255 then
        raise exception using
            message = format('pattern length cannot exceed 255 characters, got %s characters', length(pattern)),
            hint = 'use at most 255 characters';
    end if;
    if pattern !~ '^[a-zA-Z0-9._*#-]+$' then
        raise exception using
            message = format('pattern contains invalid characters. Only alphanumeric, dots, hyphens, underscores, *, and # are allowed. Got: %s', pattern),
            hint = 'use words separated by dots, such as orders.created';
    end if;
    if pattern like '.%' then
        raise exception using
            message = format('pattern cannot start with a dot. Got: %s', pattern),
            hint = 'remove the first dot';
    end if;
    if pattern like '%.' then
        raise exception using
            message = format('pattern cannot end with a dot. Got: %s', pattern),
            hint = 'remove the last dot';
    end if;
    if pattern like '%..%' then
        raise exception using
            message = format('pattern cannot contain consecutive dots. Got: %s', pattern),
            hint = 'put a word between the dots';
    end if;
    if pattern like '%**%' then
        raise exception using
            message = format('pattern cannot contain consecutive stars (**). Use # for multi-segment matching. Got: %s', pattern),
            hint = 'use # for any number of words';
    end if;
    if pattern like '%##%' then
        raise exception using
            message = format('pattern cannot contain consecutive hashes (##). A single # already matches zero or more segments. Got: %s', pattern),
            hint = 'use one #';
    end if;
    if pattern like '%*#%' or pattern like '%#*%' then
        raise exception using
            message = format(
                'pattern cannot contain adjacent wildcards (*# or #*). Separate wildcards with dots. Got: %s', pattern
            ),
            hint = 'put a dot between them';
    end if;
    return true;
end;
$$;

comment on function pgmq.validate_topic_pattern(text) is
    'Return true, or raise an error that gives the reason why the pattern is invalid.';
revoke execute on function pgmq.validate_topic_pattern(text) from public;
grant execute on function pgmq.validate_topic_pattern(text) to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
