create or replace function sluice.rotate(
    queue_name text default null, out log_name text, out segment integer, out action text, out reason text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue record;
begin
    if queue_name is not null then
        perform pgq._require_log(queue_name);
    end if;
    for v_queue in
        select q.queue_id, q.queue_name
        from pgq.queue as q
        where rotate.queue_name is null or q.queue_name = rotate.queue_name
        order by q.queue_name
    loop
        return query
            select v_queue.queue_name, r.segment, r.action, r.reason from pgq._rotate(v_queue.queue_id, false) as r;
    end loop;
    -- What all logs share.
    perform pgq._maintain_positions(8388608::bigint);
    perform pgq._maintain_retry(8388608::bigint, 20000);
    return query
        select m.log_name, null::integer, m.action,
            coalesce('share group ' || m.group_name || coalesce(': ' || m.reason, ''), 'share groups: ' || m.reason, 'share groups')
        from sluice.maintain_groups(rotate.queue_name) as m;
end;
$$;

comment on function sluice.rotate(text) is
    'Maintain the tables of one event log or all: empty segments that nobody needs, switch when it is time. Says what, and why not.';
revoke execute on function sluice.rotate(text) from public;
grant execute on function sluice.rotate(text) to pgq_admin, sluice_admin;
