/*
 * One statement, so that a message that is being moved is found once. A message in the queue is not done, whatever result an
 * earlier one of its id left: see sluice.store_results.
 *
 * Reads: queue, archive, pgmq.meta, sluice.dead_letter_message, sluice.result.
 */
create or replace function sluice.get_result(
    queue_name text, msg_id bigint,
    out state text, out result jsonb, out expires_at timestamptz, out error_type text, out error text
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    execute format(
        'select found.state, found.result, found.expires_at, found.error_type, found.error
         from (
             select 1 as position, case
                     when m.vt <= $4 then ''waiting''
                     when m.last_read_at is not null then ''running''
                     when m.read_ct > 0 then ''retrying''
                     else ''waiting''
                 end as state,
                 null::jsonb as result, null::timestamptz as expires_at, null::text as error_type, null::text as error,
                 null::bigint as dead_letter_id
             from pgmq.%1$I as m
             where m.msg_id = $1
             union all
             select 2, ''done'', r.detail, r.expires_at, null, null, null
             from sluice.result as r
             where r.incarnation = $3 and r.msg_id = $1 and r.expires_at > $4
             union all
             select 3, ''dead'', null, null, d.error_type, coalesce(nullif(d.error, ''''), d.reason), d.dead_letter_id
             from sluice.dead_letter_message as d
             where lower(d.queue_name) = lower($2) and d.msg_id = $1
               -- Ids restart in a queue that is created again; its dead letters stay.
               and d.dead_at >= (select q.created_at from pgmq.meta as q where lower(q.queue_name) = lower($2))
             union all
             select 4, ''done'', null, null, null, null, null
             from pgmq.%2$I as m
             where m.msg_id = $1
         ) as found
         order by found.position, found.dead_letter_id desc
         limit 1',
        pgmq.format_table_name(queue_name, 'q'), pgmq.format_table_name(queue_name, 'a')
    )
    using msg_id, queue_name, sluice.queue_identity(queue_name, null::oid)::bigint, clock_timestamp()
    into state, result, expires_at, error_type, error;
    state := coalesce(state, 'gone');
end;
$$;

comment on function sluice.get_result(text, bigint) is
    'Return the state of a message, waiting, running, retrying, done, dead or gone (deleted, never sent, or its result has expired), with the kept result of its handler and when it expires, or with the error of a dead letter. A message that is done without expires_at has no kept result.';
revoke execute on function sluice.get_result(text, bigint) from public;
grant execute on function sluice.get_result(text, bigint) to sluice_admin, sluice_reader;
