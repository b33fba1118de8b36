-- breaking: no
-- A message is ready or deferred by a condition that does not depend on the clock, so each can have an index; see
-- README.md. Existing queues get theirs here.
do $$
declare
    v_queue text;
begin
    for v_queue in
        select distinct lower('q_' || m.queue_name)
        from pgmq.meta as m
    loop
        execute format('drop index if exists pgmq.%I', v_queue || '_vt_idx');
        execute format(
            'create index if not exists %I on pgmq.%I (vt, msg_id) where vt > enqueued_at', v_queue || '_vt_idx', v_queue
        );
        execute format(
            'create index if not exists %I on pgmq.%I (msg_id) where vt <= enqueued_at', v_queue || '_ready_idx', v_queue
        );
    end loop;
end;
$$;
