/*
 * For a worker that extends or settles several messages in one transaction: it skips messages that another transaction has
 * locked, and so never waits.
 *
 * Calls: pgmq.format_table_name.
 */
create or replace function sluice.try_lock_messages(queue_name text, msg_ids bigint[])
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    v_held bigint[];
begin
    execute format(
        'select array_agg(held.msg_id)
         from (
             select queued.msg_id
             from pgmq.%I as queued
             where queued.msg_id = any ($1)
             order by queued.msg_id
             for update skip locked
         ) as held',
        v_table
    )
    using msg_ids
    into v_held;

    -- A statement after the locks: a message deleted meanwhile is gone rather than locked.
    return query execute format(
        'select queued.msg_id
         from pgmq.%I as queued
         where queued.msg_id = any ($1) and queued.msg_id <> all ($2)
         order by queued.msg_id',
        v_table
    )
    using msg_ids, coalesce(v_held, '{}');
end;
$$;

comment on function sluice.try_lock_messages(text, bigint[]) is
    'Lock messages until the end of the transaction without waiting; returns the msg_ids that another transaction has locked.';
revoke execute on function sluice.try_lock_messages(text, bigint[]) from public;
grant execute on function sluice.try_lock_messages(text, bigint[]) to sluice_admin, sluice_reader;
