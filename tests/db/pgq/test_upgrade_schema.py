from support import value


def test_there_is_nothing_to_upgrade(connection):
    assert value(connection, "select pgq.upgrade_schema()") == 0
