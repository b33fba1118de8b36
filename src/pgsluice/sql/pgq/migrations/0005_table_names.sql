-- breaking: no
-- Functions that run with their owner's rights take names of tables and sequences from this row, which administrators
-- of logs may write. With arbitrary names they could reach any other object of the owner.
alter table pgq.queue add constraint queue_names_check check (
    queue_data_pfx = 'pgq.event_' || queue_id::text
    and queue_event_seq = 'pgq.event_' || queue_id::text || '_id_seq'
    and queue_tick_seq = 'pgq.event_' || queue_id::text || '_tick_seq'
);
