-- Reads the records of failed messages, and looks each up in its queue. A queue that is being dropped or altered is left out.
create or replace function sluice.list_failing(of_queue text default null)
returns table (
    queue_name text, error_type text, error text, messages bigint, attempts_max integer, first_failed_at timestamptz,
    last_failed_at timestamptz, next_retry_at timestamptz, example_msg_id bigint, worker text
)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
    v_registered text;
begin
    if of_queue is not null then
        of_queue := sluice._registered_name(of_queue);
    end if;
    for v_registered in
        select m.queue_name
        from pgmq.meta as m
        where (of_queue is null or m.queue_name = of_queue)
          and exists (select from sluice.attempt as a where a.queue_name = lower(m.queue_name) and a.state = 'failed')
        order by m.queue_name
    loop
        begin
            return query execute format(
                'select $1, a.error_type, sluice._error_pattern(a.error), count(*), max(a.attempts), min(a.first_failed_at),
                    max(a.last_failed_at), min(m.vt) filter (where m.read_ct = a.read_ct),
                    (array_agg(a.msg_id order by a.last_failed_at desc))[1],
                    (array_agg(a.worker order by a.last_failed_at desc))[1]
                 from sluice.attempt as a
                 join pgmq.%I as m on m.msg_id = a.msg_id and m.enqueued_at = a.enqueued_at
                 where a.queue_name = lower($1) and a.state = ''failed''
                 group by 2, 3
                 order by 4 desc, 2, 3',
                pgmq.format_table_name(v_registered, 'q')
            )
            using v_registered;
        exception
            when lock_not_available or undefined_table then
                if of_queue is not null then
                    raise;
                end if;
        end;
    end loop;
end;
$$;

comment on function sluice.list_failing(text) is
    'Return the failed messages of one queue or all that are still retried, grouped by error type and first line, most frequent first, with an example; next_retry_at is the time of the next retry of a group, null while all are retried now.';
revoke execute on function sluice.list_failing(text) from public;
grant execute on function sluice.list_failing(text) to sluice_admin, sluice_reader;
