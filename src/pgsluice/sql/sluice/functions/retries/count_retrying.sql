-- A claimed retry has a higher read_ct than its failed attempt, and is not counted.
create or replace function sluice.count_retrying(queue_name text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count bigint;
begin
    execute format(
        'select count(*)
        from sluice.attempt as a
        join pgmq.%I as m on m.msg_id = a.msg_id and m.enqueued_at = a.enqueued_at and m.read_ct = a.read_ct
        where a.queue_name = lower($1) and a.state = ''failed''',
        pgmq.format_table_name(queue_name, 'q')
    )
    using queue_name
    into v_count;
    return v_count;
end;
$$;

comment on function sluice.count_retrying(text) is
    'Return the number of failed messages of a queue that wait for a retry.';
revoke execute on function sluice.count_retrying(text) from public;
grant execute on function sluice.count_retrying(text) to sluice_admin, sluice_reader;
