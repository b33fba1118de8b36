from support import rows, value

OPTIONS = """select c.relname, 'autovacuum_enabled=off' = any (c.reloptions), t.reloptions
             from pg_class as c left join pg_class as t on t.oid = c.reltoastrelid
             where c.relname ~ '^(event|tick)_1_[0-9]+$' order by 1"""


def test_autovacuum_stays_away_from_segments_and_their_long_values(connection, log):
    connection.execute("alter table pgq.event_1_1 reset (autovacuum_enabled)")
    connection.execute("alter table pgq.event_1_1 reset (toast.autovacuum_enabled)")

    assert value(connection, "select pgq.tune_storage('changes')") == 1

    tuned = rows(connection, OPTIONS)
    assert len(tuned) == 6
    assert all(off for _, off, _ in tuned)
    assert all(
        toast == ["autovacuum_enabled=off"] for name, _, toast in tuned if name.startswith("event")
    )


def test_new_logs_are_tuned_from_the_beginning(connection, log):
    before = rows(connection, OPTIONS)

    assert all(off for _, off, _ in before)
    assert all(
        toast == ["autovacuum_enabled=off"] for name, _, toast in before if name.startswith("event")
    )


def test_an_unknown_log_is_0(connection):
    assert value(connection, "select pgq.tune_storage('missing')") == 0
