-- breaking: no
-- On a table without a replica identity, a publication of updates or deletes makes both fail. These tables have no
-- primary key, as in PGMQ; their unique constraints identify a row. The full row is no alternative for
-- pgmq.topic_bindings: PostgreSQL 18 refuses a generated column in it.
alter table pgmq.meta replica identity using index meta_queue_name_key;
alter table pgmq.topic_bindings replica identity using index topic_bindings_unique_pattern_queue;
alter table pgmq.notify_insert_throttle replica identity using index notify_insert_throttle_queue_name_key;
