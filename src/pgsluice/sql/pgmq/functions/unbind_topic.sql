create or replace function pgmq.unbind_topic(pattern text, queue_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(pattern, '') = '' then
        raise exception using
            message = 'pattern cannot be NULL or empty',
            hint = 'pass the pattern as it was bound';
    end if;
    if coalesce(queue_name, '') = '' then
        raise exception using
            message = 'queue_name cannot be NULL or empty',
            hint = 'pass the name of the bound queue';
    end if;

    delete from pgmq.topic_bindings as b
    where b.pattern = unbind_topic.pattern
      and b.queue_name = unbind_topic.queue_name;
    return found;
end;
$$;

comment on function pgmq.unbind_topic(text, text) is
    'Remove a binding; false if there was none.';
revoke execute on function pgmq.unbind_topic(text, text) from public;
grant execute on function pgmq.unbind_topic(text, text) to sluice_admin;
