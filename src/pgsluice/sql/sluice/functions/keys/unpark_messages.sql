-- The messages of the key stayed in the queue, and are claimed in order. The waiting one becomes due immediately, and no
-- longer parks the key: its last_read_at, which its release removed, is set to the time at which the key was parked.
create or replace function sluice.unpark_messages(queue_name text, key text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_limits sluice.queue_settings;
    v_parked sluice.parked_key;
begin
    select l.*
    into v_limits
    from sluice.queue_settings as l
    where l.queue_table = pgmq.format_table_name(unpark_messages.queue_name, 'q');
    if not found then
        perform sluice._registered_name(queue_name);
        return false;
    end if;
    perform sluice._lock_limits(v_limits.limits_id);
    delete from sluice.parked_key as p
    where p.limits_id = v_limits.limits_id and p.key_hash = hashtextextended(unpark_messages.key, 0)
    returning p.* into v_parked;
    if not found then
        return false;
    end if;
    execute format(
        'update pgmq.%1$I as q
         set vt = least(q.vt, $1), last_read_at = $2
         where %2$s = $3 and q.read_ct > 0 and q.last_read_at is null',
        v_limits.queue_table, sluice._limit_key_sql('q')
    )
    using clock_timestamp(), v_parked.parked_at, v_parked.key_hash;
    perform sluice.note_action(
        'unpark_messages'::text, v_limits.queue_name::text, jsonb_build_object('key', key), null::bigint, null::text
    );
    return true;
end;
$$;

comment on function sluice.unpark_messages(text, text) is
    'Unpark a key: its messages are claimed again in order, starting with the waiting one; false if the key is not parked.';
revoke execute on function sluice.unpark_messages(text, text) from public;
grant execute on function sluice.unpark_messages(text, text) to sluice_admin;
