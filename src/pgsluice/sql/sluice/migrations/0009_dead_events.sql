-- breaking: no
-- The oldest of a group are purged first.
create index dead_event_time_idx on sluice.dead_event (queue_name, group_name, dead_at);
grant update, delete on sluice.dead_event to pgq_admin, sluice_admin;
