/*
 * A message that its handlers release, to wait for something, is not one. `pgsluice doctor` calls this too.
 *
 * Reads: the message, or the first 1,000 of the queue, by msg_id; sluice.attempt.
 */
create or replace function sluice._explain_poison(i_queue_name text, i_msg_id bigint)
returns table (at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_reads_min constant integer := 100;
    v_searched_max constant integer := 1000;
    m record;
begin
    execute format(
        'select f.msg_id, f.read_ct, f.last_read_at
         from (
            select q.msg_id, q.read_ct, q.last_read_at from pgmq.%I as q where q.msg_id >= $1 order by q.msg_id limit $2
         ) as f
         where f.read_ct >= $3
           and not exists (
               select
               from sluice.attempt as a
               where a.queue_name = lower($4) and a.msg_id = f.msg_id and a.state = ''released''
           )
         order by f.read_ct desc, f.msg_id
         limit 1',
        pgmq.format_table_name(i_queue_name, 'q')
    )
    using coalesce(i_msg_id, 0), case when i_msg_id is null then v_searched_max else 1 end, v_reads_min, i_queue_name
    into m;
    if m.msg_id is not null then
        return query values (m.last_read_at, 'poison message', jsonb_build_object('msg_id', m.msg_id, 'read_ct', m.read_ct));
    end if;
end;
$$;

comment on function sluice._explain_poison(text, bigint) is
    'Return the message of a queue that was claimed most often, if at least 100 times, or with one message.';
revoke execute on function sluice._explain_poison(text, bigint) from public;
grant execute on function sluice._explain_poison(text, bigint) to sluice_admin, sluice_reader, sluice_monitor;
