/*
 * Messages in flight stay until they are settled or their lease has expired: no message is handled at two shards at a time. If a
 * message waits for others (see sluice.send_after), or others wait for it, all messages of its key stay: they run here first.
 *
 * Highest msg_id first, and repeated below first_msg_id until that is null. left_keys are the keys of messages that stay.
 *
 * Calls: sluice._registered_name. Writes: the queue's table, sluice.attempt, sluice.moving_message. Locks rows; never waits.
 */
create or replace function sluice.take_moving(
    queue_name text, since bigint, before bigint, keys text[], to_shards text[], qty integer,
    out taken bigint, out left_keys text[], out first_msg_id bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name constant text := sluice._registered_name(queue_name);
    v_queue_table constant text := pgmq.format_table_name(v_queue_name, 'q');
    v_bound text[];
begin
    execute format(
        'select coalesce(array_agg(distinct q.headers ->> ''x-pgmq-group''), ''{}'')
         from (
            select s.msg_id from sluice.successor as s where s.queue_table = $1
            union all
            select p.msg_id from sluice.predecessor as p where p.queue_table = $1
         ) as waiting
         join pgmq.%I as q on q.msg_id = waiting.msg_id
         where q.headers ->> ''x-pgmq-group'' = any ($2)',
        v_queue_table
    )
    into v_bound
    using v_queue_table, keys;

    execute format(
        'with named as materialized (
            select n.key, n.shard from unnest($1, $2) as n (key, shard)
        ),
        found as materialized (
            select q.msg_id, q.headers ->> ''x-pgmq-group'' as key
            from pgmq.%1$I as q
            where q.headers ->> ''x-pgmq-group'' = any ($1)
              and ($3 is null or q.msg_id >= $3)
              and ($4 is null or q.msg_id < $4)
            order by q.msg_id desc
            limit $5
        ),
        free as materialized (
            select q.msg_id
            from pgmq.%1$I as q
            join found on found.msg_id = q.msg_id
            where found.key <> all ($6)
              and (q.vt <= clock_timestamp() or q.last_read_at is null)
            for update of q skip locked
        ),
        gone as (
            delete from pgmq.%1$I as q
            where q.msg_id = any (array(select free.msg_id from free))
            returning q.*
        ),
        tried as (
            delete from sluice.attempt as a
            using gone
            where a.queue_name = lower($7) and a.msg_id = gone.msg_id and a.enqueued_at = gone.enqueued_at
            returning a.*
        ),
        moving as (
            insert into sluice.moving_message (
                to_shard, queue_name, msg_id, key, read_ct, enqueued_at, last_read_at, vt, message, headers, attempt
            )
            select named.shard, $7, gone.msg_id, named.key, gone.read_ct, gone.enqueued_at, gone.last_read_at, gone.vt, gone.message,
                gone.headers, to_jsonb(tried)
            from gone
            join named on named.key = gone.headers ->> ''x-pgmq-group''
            left join tried on tried.msg_id = gone.msg_id
            returning msg_id
        )
        select
            (select count(*) from moving),
            coalesce(
                (select array_agg(distinct found.key) from found where found.msg_id <> all (array(select moving.msg_id from moving))),
                ''{}''
            ),
            (select min(found.msg_id) from found having count(*) = $5)',
        v_queue_table
    )
    into taken, left_keys, first_msg_id
    using keys, to_shards, since, before, qty, v_bound, v_queue_name;
end;
$$;

comment on function sluice.take_moving(text, bigint, bigint, text[], text[], integer) is
    'Take up to qty messages of these keys out of a queue, each for the shard of its key, with msg_ids from since on and below before, null: no bound; those in flight stay. first_msg_id is null when no more are below it.';
revoke execute on function sluice.take_moving(text, bigint, bigint, text[], text[], integer) from public;
grant execute on function sluice.take_moving(text, bigint, bigint, text[], text[], integer) to sluice_admin;
