/*
 * Returns the row of a message, wherever it is, without its contents, as an object. place is queue, archive or dead letters;
 * state is ready, delayed, in flight, retrying (failed, waits for its back-off), released (with a delay), archived,
 * dead, gone (its id was used, and there is no row) or unknown (its id was never used). newest is the last id that was used.
 *
 * locked_by is the pid of the session whose transaction has locked, changed or deleted the row and is still open; readers
 * skip such a row.
 *
 * Reads: queue, archive and dead letters by msg_id, in one statement, so that a message being moved is found; sluice.attempt.
 */
create or replace function sluice._find_message(queue_name text, msg_id bigint)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_found jsonb;
    v_newest bigint;
begin
    execute format(
        'select to_jsonb(f)
         from (
            select stored.*,
                case
                    when stored.place = ''archive'' then ''archived''
                    when stored.place = ''dead letters'' then ''dead''
                    when stored.vt <= $3 then ''ready''
                    when stored.last_read_at is not null then ''in flight''
                    when stored.read_ct = 0 then ''delayed''
                    when noted.state = ''failed'' and noted.read_ct = stored.read_ct then ''retrying''
                    else ''released''
                end as state,
                coalesce(stored.attempts, noted.attempts) as attempts, noted.state as attempt_state,
                noted.read_ct = stored.read_ct as attempt_is_current,
                coalesce(stored.first_failed_at, noted.first_failed_at) as first_failed_at, noted.last_failed_at,
                coalesce(stored.error_type, noted.error_type) as error_type, coalesce(stored.error, noted.error) as error,
                coalesce(stored.worker, noted.worker) as worker,
                (
                    select l.pid
                    from pg_locks as l
                    where l.locktype = ''transactionid'' and l.mode = ''ExclusiveLock'' and l.granted and l.transactionid = stored.locked_by_xid
                    limit 1
                ) as locked_by
            from (
                select 1 as position, ''queue'' as place, m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt,
                    null::timestamptz as archived_at, null::bigint as dead_letter_id, null::timestamptz as dead_at, null as reason,
                    null::integer as attempts, null::timestamptz as first_failed_at, null as error_type, null as error, null as worker,
                    m.xmax as locked_by_xid, %3$s
                from pgmq.%1$I as m
                where m.msg_id = $1
                union all
                select 2, ''archive'', m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt,
                    m.archived_at, null, null, null, null, null, null, null, null, m.xmax, %3$s
                from pgmq.%2$I as m
                where m.msg_id = $1
                union all
                select 3, ''dead letters'', m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, null,
                    null, m.dead_letter_id, m.dead_at, m.reason, m.attempts, m.first_failed_at, m.error_type, m.error, m.worker, m.xmax, %3$s
                from sluice.dead_letter_message as m
                where lower(m.queue_name) = lower($2) and m.msg_id = $1
            ) as stored
            left join sluice.attempt as noted
                on stored.place = ''queue'' and noted.queue_name = lower($2) and noted.msg_id = $1
                and noted.enqueued_at = stored.enqueued_at
            order by stored.position, stored.dead_letter_id desc
            limit 1
         ) as f',
        v_queue, pgmq.format_table_name(queue_name, 'a'),
        'm.headers ->> ''x-pgmq-group'' as key, m.headers -> ''x-pgmq-schedule'' as schedule,
            case
                when jsonb_typeof(m.headers -> ''x-pgmq-replayed-from'') = ''object''
                then (m.headers -> ''x-pgmq-replayed-from'') - ''headers''
            end as origin'
    )
    using msg_id, queue_name, clock_timestamp()
    into v_found;
    execute format('select case when ids.is_called then ids.last_value else 0 end from pgmq.%I as ids', v_queue || '_msg_id_seq')
    into v_newest;
    v_found := coalesce(
        v_found,
        jsonb_build_object('msg_id', msg_id, 'state', case when msg_id between 1 and v_newest then 'gone' else 'unknown' end)
    );
    return jsonb_strip_nulls(v_found || jsonb_build_object('newest', v_newest));
end;
$$;

comment on function sluice._find_message(text, bigint) is
    'Return the place, state and record of a message, without its contents.';
revoke execute on function sluice._find_message(text, bigint) from public;
grant execute on function sluice._find_message(text, bigint) to sluice_admin;
