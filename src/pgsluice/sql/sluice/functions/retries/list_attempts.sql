-- A message that succeeded has no record, nor has one at its first attempt. Of several dead letters of a message, after
-- redrives or where ids restarted, the newest counts.
create or replace function sluice.list_attempts(queue_name text, msg_ids bigint[])
returns table (
    msg_id bigint, attempts integer, state text, first_failed_at timestamptz, last_failed_at timestamptz,
    next_retry_at timestamptz, error_type text, error text, trace text, worker text
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'select a.msg_id, a.attempts, a.state, a.first_failed_at, a.last_failed_at,
            case when a.state <> ''begun'' and a.read_ct = m.read_ct then m.vt end, a.error_type, a.error, a.trace, a.worker
         from sluice.attempt as a
         join pgmq.%I as m on m.msg_id = a.msg_id and m.enqueued_at = a.enqueued_at
         where a.queue_name = lower($1) and a.msg_id = any ($2)
         union all
         (
             select distinct on (d.msg_id) d.msg_id, d.attempts, ''dead'', d.first_failed_at, d.dead_at, null::timestamptz,
                 d.error_type, coalesce(d.error, d.reason), d.trace, d.worker
             from sluice.dead_letter_message as d
             where lower(d.queue_name) = lower($1) and d.msg_id = any ($2)
             order by d.msg_id, d.dead_letter_id desc
         )
         order by 1',
        pgmq.format_table_name(queue_name, 'q')
    )
    using queue_name, msg_ids;
end;
$$;

comment on function sluice.list_attempts(text, bigint[]) is
    'Return the recorded attempts of messages of a queue and its dead letters, with the last error; state is begun, failed, released, or dead. Messages without a failed, released or repeated attempt have no record.';
revoke execute on function sluice.list_attempts(text, bigint[]) from public;
grant execute on function sluice.list_attempts(text, bigint[]) to sluice_admin, sluice_reader;
