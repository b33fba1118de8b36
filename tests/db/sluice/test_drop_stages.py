"""sluice.drop_stages, with _drop_stages and _maintain_sinks."""

from support import rows, value

LEFT = "select sink_id, version from sluice.stage order by 1, 2"
TABLES = "select count(*) from pg_class where relname ~ '^stage_[0-9]+$'"


def stage(connection, sink, version):
    return value(connection, "select sluice.create_stage(%s, %s, array['message'])", sink, version)


def test_stages_of_a_sink_up_to_a_version_are_dropped(connection):
    for sink, version in (("a", 1), ("a", 2), ("a", 2), ("a", 3), ("b", 1)):
        stage(connection, sink, version)

    assert value(connection, "select sluice.drop_stages('a', 2)") == 3
    assert rows(connection, LEFT) == [("a", 3), ("b", 1)]
    assert value(connection, TABLES) == 2


def test_a_stage_that_is_being_filled_is_left_to_the_next_one_who_comes(database, connection):
    filled = stage(connection, "a", 1)
    stage(connection, "a", 1)
    with database.connect(autocommit=False) as task:
        task.execute(f"insert into sluice.stage_{filled} values ('1')")
        assert value(connection, "select sluice.drop_stages('a', 1)") == 1
        assert rows(connection, LEFT) == [("a", 1)]

    assert value(connection, "select sluice.drop_stages('a', 1)") == 1
    assert value(connection, TABLES) == 0


def test_maintenance_drops_abandoned_stages(connection, as_member):
    old, _ = stage(connection, "a", 1), stage(connection, "a", 2)
    assert rows(connection, "select * from sluice.maintain()") == []

    connection.execute(
        "update sluice.stage set made_at = now() - interval '1 day' where stage_id = %s", [old]
    )

    assert as_member("sluice_admin", "select task, done, detail from sluice.maintain()") == [
        ("sinks", True, "1 stages dropped that no commit came for")
    ]
    connection.execute("select sluice.maintain()")
    assert rows(connection, LEFT) == [("a", 2)]
    assert value(connection, TABLES) == 1
