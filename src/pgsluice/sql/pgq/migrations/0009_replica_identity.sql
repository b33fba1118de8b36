-- breaking: no
-- On a table without a replica identity, a publication of updates or deletes makes both fail. Event tables and retry
-- entries have no primary key, and an index for one would slow down every insert. Rows are appended and truncated; the
-- few statements that update or delete rows publish the whole old row. pgq.tune_storage sets it on the tables of
-- existing logs, log by log.
alter table pgq.event_template replica identity full;
alter table pgq.retry_entry replica identity full;
alter table pgq.retry_entry_0 replica identity full;
alter table pgq.retry_entry_1 replica identity full;
