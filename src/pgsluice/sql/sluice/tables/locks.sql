create table sluice.lock (
    class integer not null,
    id integer not null,
    primary key (class, id)
);
comment on table sluice.lock is
    'Rows that are locked and never changed: one per share group (class 1936221042), limits of a queue (1936484717), partitioned table (1936551792) and name (1936486765).';

-- Non-transactional, so that notifiers never wait for each other; unlogged, so that an idle cycle writes nothing: no
-- transaction id, no WAL, no flush. After a crash there is no leader, and the first notifier becomes it.
create unlogged sequence sluice.notifier_turn;
comment on sequence sluice.notifier_turn is
    'The leader of the notifiers and its last poll: milliseconds since 1970, and its number in the lowest 20 bits.';

grant select, update on sequence sluice.notifier_turn to sluice_admin, sluice_reader;
grant select on sequence sluice.notifier_turn to sluice_monitor;
grant select on sequence sluice.notifier_turn to pg_monitor;
