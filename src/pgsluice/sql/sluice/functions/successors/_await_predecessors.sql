/*
 * Security definer: a sender has no rights on the messages that its own waits for, but needs the right to send to or to read their
 * queues, so that it cannot learn about others. The rows are locked until the commit, in the order of ids: those who delete them wait,
 * and then see what waits. A message that is not there any more is finished at once.
 *
 * Calls: sluice._finish_predecessors. Writes: sluice.successor, sluice.predecessor.
 */
create or replace function sluice._await_predecessors(
    queue_name text, msg_id bigint, after_queues text[], after_msg_ids bigint[], visible_at timestamptz, after_failure text
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_caller constant name := sluice._caller();
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    v_after record;
    v_successor_id bigint;
    v_newest bigint;
    v_waiting bigint[];
    v_missing bigint[];
begin
    if not has_table_privilege(v_caller, format('pgmq.%I', v_table)::regclass, 'insert') then
        raise exception using
            errcode = 'insufficient_privilege',
            message = format('permission denied for queue %s', queue_name),
            hint = 'grant the role sluice_writer';
    end if;
    perform pgmq._require_own_table(v_table);
    if after_failure is null or after_failure not in ('fail', 'continue') then
        raise exception using
            errcode = '22023',
            message = format('after_failure is %s', coalesce(quote_literal(after_failure), 'NULL')),
            hint = 'use fail or continue';
    end if;
    if cardinality(after_queues) is distinct from cardinality(after_msg_ids)
        or array_position(after_queues, null) is not null or array_position(after_msg_ids, null) is not null
    then
        raise exception using
            errcode = '22023',
            message = format('got %s queues for %s msg_ids', cardinality(after_queues), cardinality(after_msg_ids)),
            hint = 'pass one queue for each msg_id, and no nulls';
    end if;

    insert into sluice.successor as s (queue_table, msg_id, remaining, is_failing, visible_at)
    select v_table, _await_predecessors.msg_id,
        count(distinct (pgmq.format_table_name(a.queue_name, 'q'), a.msg_id)), after_failure = 'fail', _await_predecessors.visible_at
    from unnest(after_queues, after_msg_ids) as a (queue_name, msg_id)
    returning s.successor_id into v_successor_id;
    insert into sluice.predecessor (queue_table, msg_id, successor_id)
    select distinct pgmq.format_table_name(a.queue_name, 'q'), a.msg_id, v_successor_id
    from unnest(after_queues, after_msg_ids) as a (queue_name, msg_id);

    for v_after in
        select p.queue_table, array_agg(p.msg_id order by p.msg_id) as msg_ids
        from sluice.predecessor as p
        where p.successor_id = v_successor_id
        group by p.queue_table
        order by p.queue_table
    loop
        if not has_table_privilege(v_caller, format('pgmq.%I', v_after.queue_table)::regclass, 'insert, select') then
            raise exception using
                errcode = 'insufficient_privilege',
                message = format('permission denied for queue %s', substr(v_after.queue_table, 3)),
                hint = 'grant the role sluice_writer or sluice_reader';
        end if;
        if not sluice._has_successors(v_after.queue_table) then
            raise exception using
                errcode = 'object_not_in_prerequisite_state',
                message = format('no message can run after messages of queue %s', substr(v_after.queue_table, 3)),
                hint = format('once, as an administrator: select sluice.enable_successors(%L)', substr(v_after.queue_table, 3));
        end if;
        execute format('select case when ids.is_called then ids.last_value else 0 end from pgmq.%I as ids', v_after.queue_table || '_msg_id_seq')
        into v_newest;
        if v_after.msg_ids[1] < 1 or v_after.msg_ids[cardinality(v_after.msg_ids)] > v_newest then
            raise exception using
                errcode = '22023',
                message = format(
                    'queue %s never had message %s', substr(v_after.queue_table, 3),
                    case when v_after.msg_ids[1] < 1 then v_after.msg_ids[1] else v_after.msg_ids[cardinality(v_after.msg_ids)] end
                ),
                hint = 'pass msg_ids that a send to this queue returned';
        end if;
        execute format(
            'select array_agg(locked.msg_id)
             from (select q.msg_id from pgmq.%I as q where q.msg_id = any ($1) order by q.msg_id for key share) as locked',
            v_after.queue_table
        )
        using v_after.msg_ids
        into v_waiting;
        v_missing := array(select m.msg_id from unnest(v_after.msg_ids) as m (msg_id) where m.msg_id <> all (coalesce(v_waiting, '{}')));
        if v_missing <> '{}' then
            perform sluice._finish_predecessors(v_after.queue_table, v_missing);
        end if;
    end loop;
end;
$$;

comment on function sluice._await_predecessors(text, bigint, text[], bigint[], timestamptz, text) is
    'Let a message that was just sent with vt infinity wait for others.';
revoke execute on function sluice._await_predecessors(text, bigint, text[], bigint[], timestamptz, text) from public;
grant execute on function sluice._await_predecessors(text, bigint, text[], bigint[], timestamptz, text) to sluice_admin, sluice_writer;
