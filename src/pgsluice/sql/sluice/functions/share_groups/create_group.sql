create or replace function sluice.create_group(log_name text, group_name text, options jsonb default '{}')
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_group sluice.share_group;
    v_tick pgq.tick;
    v_wanted sluice.share_group;
    v_other text;
begin
    if group_name is null then
        raise exception using
            errcode = '22004',
            message = 'group name is null',
            hint = 'pass a name for the share group';
    end if;
    if group_name !~ E'\\S' then
        raise exception using
            errcode = '22023',
            message = 'group name is empty',
            hint = 'pass a name for the share group';
    end if;
    perform pgq._require_log(log_name);
    -- The lock of a registration; it also serializes creations.
    select q.* into v_queue from pgq.queue as q where q.queue_name = create_group.log_name for no key update;
    select g.* into v_group from sluice.share_group as g where g.queue_id = v_queue.queue_id and g.group_name = create_group.group_name;
    v_group.log_name := log_name;
    v_wanted := sluice._group_settings(v_group, options);
    if found then
        select o.name into v_other
        from jsonb_object_keys(options - 'start') as o (name)
        where to_jsonb(v_group) -> o.name is distinct from to_jsonb(v_wanted) -> o.name
        order by o.name
        limit 1;
        if found then
            raise exception using
                errcode = 'SG004',
                table = log_name,
                constraint = group_name,
                message = format('share group %L exists with another %s', group_name, v_other),
                detail = format('It is %s.', coalesce(to_jsonb(v_group) ->> v_other, 'null')),
                hint = 'change it with sluice.set_group_options()';
        end if;
        return false;
    end if;

    v_group := v_wanted;
    v_group.queue_id := v_queue.queue_id;
    v_group.group_name := group_name;
    v_group.created_at := clock_timestamp();
    perform pgq._prepare_claims(v_queue.queue_id);
    if pgq.register_consumer(log_name, group_name) = 0 then
        raise exception using
            errcode = 'SG004',
            message = format('event log %L has a consumer %L already', log_name, group_name),
            hint = 'choose another name, or unregister the consumer';
    end if;
    update pgq.subscriber as s
    set sub_is_group = true
    from pgq.consumer as c
    where s.sub_queue = v_queue.queue_id and c.co_id = s.sub_consumer and c.co_name = group_name
    returning s.sub_key, s.sub_id into v_group.sub_key, v_group.owner;
    v_tick := sluice._group_start(v_queue.queue_id, options -> 'start');
    perform pgq._move(0, pgq._at_tick(pgq._position(v_group.sub_key, 0), v_tick));

    v_group.group_id := nextval(pg_get_serial_sequence('sluice.share_group', 'group_id'));
    insert into sluice.share_group overriding system value values (v_group.*);
    insert into sluice.lock (class, id) values (1936221042, v_group.group_id); -- the lock of sluice.claim
    perform sluice._write_claim(row(
        v_group.group_id, 1, clock_timestamp(), null,
        v_tick.tick_id, v_tick.tick_snapshot, v_tick.tick_event_seq, v_tick.tick_id, v_tick.tick_snapshot, v_tick.tick_event_seq,
        9223372036854775807, 9223372036854775807, 0,
        '-infinity', 0, '-infinity', 0, 0,
        pgq._others_snapshot(), '-infinity', 0, 'infinity', 1, clock_timestamp(), '0', false, null
    )::sluice.claim);
    return true;
end;
$$;

comment on function sluice.create_group(text, text, jsonb) is
    'Create a share group of a log; false if it exists with these options. The first group of a log builds the indexes that claims need.';
revoke execute on function sluice.create_group(text, text, jsonb) from public;
grant execute on function sluice.create_group(text, text, jsonb) to pgq_admin, sluice_admin;
