create table sluice.lock (
    class integer not null,
    id integer not null,
    primary key (class, id)
);
comment on table sluice.lock is
    'Rows that are locked and never changed: one per share group (class 1936221042), limits of a queue (1936484717), partitioned table (1936551792) and name (1936486765).';

-- Non-transactional and unlogged: a call of sluice.lead writes no WAL, takes no transaction id and leaves no dead row.
create unlogged sequence sluice.notifier_turn;
comment on sequence sluice.notifier_turn is 'The leader of the notifiers and its last call of sluice.lead: see sluice._turn.';
create unlogged sequence sluice.maintenance_turn;
comment on sequence sluice.maintenance_turn is 'The leader of maintenance and its last call of sluice.lead: see sluice._turn.';

grant select, update on sequence sluice.notifier_turn to sluice_admin, sluice_reader;
grant select, update on sequence sluice.maintenance_turn to sluice_admin;
grant select on sequence sluice.maintenance_turn to pgq_admin, sluice_reader;
grant select on sequence sluice.notifier_turn, sluice.maintenance_turn to sluice_monitor;
grant select on sequence sluice.notifier_turn, sluice.maintenance_turn to pg_monitor;
