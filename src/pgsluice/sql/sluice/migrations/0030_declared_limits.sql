-- breaking: no
alter table sluice.queue_limits add column if not exists declared_by text;
comment on column sluice.queue_limits.declared_by is
    'The handler that declared the limits, which the next start of a worker may change; null: an operator set them.';
-- It returns one more column.
drop function if exists sluice.list_queue_limits();
