create or replace function public.pgmq_archive(queue_name text, msg_id bigint)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgmq.archive(queue_name, msg_id) then
        return true;
    end if;
    raise warning 'no message found with msg_id: %', msg_id;
    return false;
end;
$$;

comment on function public.pgmq_archive(text, bigint) is
    'Move one message to the archive; false, with a warning, if it is not in the queue. PGMQ 0.20''s name of pgmq.archive.';
revoke execute on function public.pgmq_archive(text, bigint) from public;
grant execute on function public.pgmq_archive(text, bigint) to sluice_admin, sluice_reader;

create or replace function public.pgmq_archive(queue_name text, msg_ids bigint[])
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.archive(queue_name, msg_ids);
    if found then
        return true;
    end if;
    raise warning 'no message found with msg_ids: %', msg_ids;
    return false;
end;
$$;

comment on function public.pgmq_archive(text, bigint[]) is
    'Move messages to the archive; false, with a warning, if none is in the queue. PGMQ 0.20''s name of pgmq.archive.';
revoke execute on function public.pgmq_archive(text, bigint[]) from public;
grant execute on function public.pgmq_archive(text, bigint[]) to sluice_admin, sluice_reader;
