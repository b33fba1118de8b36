-- breaking: no
-- Outside of transactions, so that notifiers never wait for each other; unlogged, so that a round that finds nothing
-- writes nothing: no transaction id, no WAL, no flush. After a crash nobody leads, and the first to come does.
create unlogged sequence sluice.notifier_turn;
comment on sequence sluice.notifier_turn is
    'Who leads the notifiers, and when it last looked: milliseconds since 1970, and in the lowest 20 bits its number.';

grant select, update on sequence sluice.notifier_turn to sluice_admin, sluice_reader;
grant select on sequence sluice.notifier_turn to sluice_monitor;
grant select on sequence sluice.notifier_turn to pg_monitor;
