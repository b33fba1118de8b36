from support import value


def test_it_begins_with_the_version_whose_functions_these_are(connection):
    # pgqd leaves a database alone whose version is null or begins with a character below 3.
    assert value(connection, "select pgq.version()") == "3.5.2 (pgsluice)"


def test_anybody_may_ask(connection, role):
    with connection.transaction():
        connection.execute(f"set local role {role}")
        assert value(connection, "select pgq.version()").startswith("3.5")
