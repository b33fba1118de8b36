-- The events of the log, under a name without the log's number.
do $$
declare
    v_events text;
begin
    select queue_data_pfx into strict v_events from pgq.queue where queue_name = 'changes';
    execute format(
        'create view demo.change as
         select ev_id, ev_time, ev_type from %s where ev_owner is null',
        v_events::regclass
    );
end;
$$;
