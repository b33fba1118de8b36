from support import value


def test_version_starts_with_the_pgq_version(connection):
    # pgqd ignores a database whose version is null or starts with a character below 3.
    assert value(connection, "select pgq.version()") == "3.5.2 (pgsluice)"


def test_every_role_may_call_it(connection, role):
    with connection.transaction():
        connection.execute(f"set local role {role}")
        assert value(connection, "select pgq.version()").startswith("3.5")
