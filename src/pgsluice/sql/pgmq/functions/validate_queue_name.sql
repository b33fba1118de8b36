create or replace function pgmq.validate_queue_name(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- 'archived_at_idx_' and 'template_pgmq_q_' have 16 bytes; an identifier has 63. PostgreSQL silently truncates
    -- longer ones, and two queues would share one table.
    v_name_bytes_max constant integer := 47;
    v_table text := pgmq.format_table_name(queue_name, 'q');
    v_twin text;
begin
    if octet_length(queue_name) > v_name_bytes_max or octet_length(v_table) > v_name_bytes_max + 2 then
        raise exception using
            datatype = 'QU001',
            message = format('queue name is too long, maximum length is %s characters', v_name_bytes_max),
            detail = format(
                '%L has %s bytes; a character outside ASCII counts for two to four.',
                queue_name, octet_length(queue_name)
            ),
            hint = format('shorten it to %s bytes, which are %1$s ASCII characters', v_name_bytes_max);
    end if;
    if queue_name = '' then
        raise exception using
            errcode = 'QU001',
            message = 'queue name is empty',
            hint = 'choose a name of 1 to 47 bytes';
    end if;
    if queue_name ~ '[[:cntrl:]]' then
        raise exception using
            errcode = 'QU001',
            message = format('queue name %L contains control characters', queue_name),
            hint = 'use letters, digits and underscores';
    end if;

    select m.queue_name
    into v_twin
    from pgmq.meta as m
    where m.queue_name <> validate_queue_name.queue_name
      and lower('q_' || m.queue_name) = v_table
    limit 1;
    if found then
        raise exception using
            errcode = 'QU002',
            message = format('queue %L would share its table with queue %L', queue_name, v_twin),
            detail = format('Both names fold to the table pgmq.%I.', v_table),
            hint = format('use queue %L, or a name that differs in more than upper and lower case', v_twin);
    end if;

    perform
    from pg_class as c
    where c.relnamespace = 'pgmq'::regnamespace
      and c.relname in (v_table, pgmq.format_table_name(queue_name, 'a'))
      and c.relispartition;
    if found then
        raise exception using
            errcode = 'QU002',
            message = format('queue %L would share its table with a partition of another queue', queue_name),
            detail = format('The table pgmq.%I, or that of the archive, is a partition.', v_table),
            hint = 'choose another name';
    end if;
end;
$$;

comment on function pgmq.validate_queue_name(text) is
    'Raise an error if a queue of this name cannot be created without harm to another.';
revoke execute on function pgmq.validate_queue_name(text) from public;
grant execute on function pgmq.validate_queue_name(text) to sluice_admin;
