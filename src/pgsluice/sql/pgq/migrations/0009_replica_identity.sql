-- breaking: no
-- A publication of updates or deletes makes both fail on a table without a replica identity. Event tables and retry entries have no
-- primary key, and an index for one would cost every insert. They are appended to and truncated; the few statements that update or
-- delete rows publish the whole old row. Tables of logs that exist get it from pgq.tune_storage, log by log.
alter table pgq.event_template replica identity full;
alter table pgq.retry_entry replica identity full;
alter table pgq.retry_entry_0 replica identity full;
alter table pgq.retry_entry_1 replica identity full;
