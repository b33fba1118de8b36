/*
 * A message that its handlers release, to wait for something, is not one. Explanations and `pgsluice doctor` call this.
 *
 * Reads: the message, or the first 1,000 of the queue, by msg_id; sluice.attempt.
 */
create or replace function sluice.poison_message(
    queue_name text, inout msg_id bigint default null, out read_ct integer, out last_read_at timestamptz
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_reads_min constant integer := 100;
    v_searched_max constant integer := 1000;
begin
    begin
        return query execute format(
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
            pgmq.format_table_name(queue_name, 'q')
        )
        using coalesce(msg_id, 0), case when msg_id is null then v_searched_max else 1 end, v_reads_min, queue_name;
        raise sqlstate 'RL000'; -- releases the locks: doctor calls this for all queues
    exception
        when sqlstate 'RL000' then
            null;
    end;
end;
$$;

comment on function sluice.poison_message(text, bigint) is
    'Return the message that was claimed most often of the first 1,000 of a queue, or the one with msg_id, if it was claimed at least 100 times and not released by its handler.';
revoke execute on function sluice.poison_message(text, bigint) from public;
grant execute on function sluice.poison_message(text, bigint) to sluice_admin, sluice_monitor, sluice_reader;
