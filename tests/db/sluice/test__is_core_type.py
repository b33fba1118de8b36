import pytest

from support import value


@pytest.mark.parametrize(
    ("kind", "core"),
    [
        ("integer", True), ("integer[]", True), ("jsonb", True), ("tstzmultirange", True),
        ("information_schema.sql_identifier", True), ("pg_catalog.pg_class", True),
        ("low", True), ("lower[]", True), ("several", True),
        ("mood", False), ("mood[]", False), ("happy", False), ("happier[]", False), ("account", False),
        ("moodrange", False), ("span", False),
    ],
)  # fmt: skip
def test_a_type_is_postgresqls_own_through_domains_and_arrays(connection, kind, core):
    connection.execute(
        """create domain low as integer; create domain lower as low; create domain several as lower[];
        create type mood as enum ('sad'); create domain happy as mood; create domain happier as happy;
        create table account (id integer); create type moodrange as range (subtype = mood);
        create type span as range (subtype = integer)"""
    )

    assert value(connection, "select sluice._is_core_type(%s::text::regtype)", kind) is core
