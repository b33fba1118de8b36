-- Bounded step; the next one starts after last_msg_id, so that it does not scan the index entries of deleted messages.
-- Messages that another session has locked are skipped, and stay.
create or replace function sluice.purge_messages(
    queue_name text,
    upto_msg_id bigint,
    after_msg_id bigint default null,
    qty integer default 10000,
    out purged bigint,
    out last_msg_id bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_registered text := sluice._registered_name(queue_name);
begin
    if upto_msg_id is null then
        raise exception using
            errcode = '22004',
            message = 'upto_msg_id is null',
            hint = format('pass the highest msg_id to delete; sluice.queue_extent(%L) returns that of the queue', queue_name);
    end if;
    -- An array instead of a join: without an estimate of the rows, the planner would scan the whole table.
    execute format(
        'with purged as (
            delete from pgmq.%1$I as q
            where q.msg_id = any (array(
                select m.msg_id
                from pgmq.%1$I as m
                where m.msg_id <= $1 and m.msg_id > $2
                order by m.msg_id
                limit $3
                for update skip locked
            ))
            returning q.msg_id
        )
        select count(*), max(purged.msg_id) from purged',
        pgmq.format_table_name(queue_name, 'q')
    )
    using upto_msg_id, coalesce(after_msg_id, -1), qty
    into purged, last_msg_id;
    if purged > 0 then
        perform sluice.note_action(
            'purge_messages'::text, v_registered,
            jsonb_build_object('upto_msg_id', upto_msg_id, 'after_msg_id', after_msg_id), purged, null::text
        );
    end if;
end;
$$;

comment on function sluice.purge_messages(text, bigint, bigint, integer) is
    'Delete messages of a queue, visible or not, up to a msg_id and after another, at most qty, lowest msg_id first; returns their number and the highest msg_id: pass it as after_msg_id of the next call, until 0 were deleted.';
revoke execute on function sluice.purge_messages(text, bigint, bigint, integer) from public;
grant execute on function sluice.purge_messages(text, bigint, bigint, integer) to sluice_admin;
