-- Called with what the other shard says that it has received, so that a repeated call after a crash loses and doubles nothing.
-- Reads and writes: sluice.moving_message.
create or replace function sluice.next_moving(
    to_shard text, received uuid[], held_keys text[], qty integer, out queue_names text[], out messages jsonb
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_max constant integer := 16777216; -- an object of JSON holds 256 MB
begin
    delete from sluice.moving_message as m where m.moving_id = any (received);
    select coalesce(array_agg(distinct b.queue_name), '{}'), jsonb_agg(b.moving order by b.queue_name, b.msg_id)
    into queue_names, messages
    from (
        -- The payload as text: in an object, a payload that is null and none would be the same.
        select m.queue_name, m.msg_id, to_jsonb(m) || jsonb_build_object('message', m.message::text) as moving,
            coalesce(
                sum(octet_length(m.message::text)) over (
                    order by m.queue_name, m.msg_id rows between unbounded preceding and 1 preceding
                ),
                0
            ) as before_bytes
        from (
            select m.*
            from sluice.moving_message as m
            where m.to_shard = next_moving.to_shard and m.key <> all (held_keys)
            order by m.queue_name, m.msg_id
            limit qty
        ) as m
    ) as b
    where b.before_bytes < v_bytes_max;
end;
$$;

comment on function sluice.next_moving(text, uuid[], text[], integer) is
    'Remove the moving messages that were received, and return up to qty others for a shard, lowest msg_id first, except those of held keys; with the names of their queues.';
revoke execute on function sluice.next_moving(text, uuid[], text[], integer) from public;
grant execute on function sluice.next_moving(text, uuid[], text[], integer) to sluice_admin;
