import psycopg
import pytest

from support import rows


@pytest.fixture
def granted(connection, queue, role):
    """Run a statement as a member of one of the roles."""

    def run(member_of: str, statement: str):
        connection.execute(f"grant {member_of} to {role}")
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(f"set local role {role}")
                return rows(connection, statement)
        finally:
            connection.execute(f"revoke {member_of} from {role}")

    connection.execute("select pgmq.send('orders', '{\"card\": 4711}'::jsonb)")
    return run


ALLOWED = {
    "sluice_writer": ["send"],
    "sluice_reader": ["read", "pop", "archive", "delete", "set_vt", "metrics", "reject", "release"],
    "sluice_monitor": ["metrics"],
    "sluice_admin": [
        "send",
        "read",
        "pop",
        "archive",
        "delete",
        "set_vt",
        "metrics",
        "purge",
        "reject",
        "release",
    ],
}
STATEMENTS = {
    "send": "select pgmq.send('orders', '{}'::jsonb)",
    "read": "select * from pgmq.read('orders', 30, 1)",
    "pop": "select * from pgmq.pop('orders', 1)",
    "archive": "select pgmq.archive('orders', 1)",
    "delete": "select pgmq.delete('orders', 1)",
    "set_vt": "select * from pgmq.set_vt('orders', 1, 5)",
    "metrics": "select * from pgmq.metrics('orders')",
    "purge": "select pgmq.purge_queue('orders')",
    "reject": "select sluice.reject('orders', 1, 0, 'r')",
    "release": "select sluice.release('orders', 1, 0)",
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("member_of", ALLOWED)
def test_each_role_may_do_what_is_its_own_and_nothing_else(granted, member_of, statement):
    if statement in ALLOWED[member_of]:
        assert len(granted(member_of, STATEMENTS[statement])) == 1
    else:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            granted(member_of, STATEMENTS[statement])


@pytest.mark.parametrize("member_of", ["sluice_monitor", "pg_monitor"])
def test_a_monitor_sees_figures_and_no_payload(granted, member_of):
    assert granted(member_of, "select queue_length from pgmq.metrics('orders')") == [(1,)]
    for table in ("q_orders", "a_orders"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            granted(member_of, f"select message from pgmq.{table}")


def test_pg_monitor_loses_what_default_privileges_gave_it(connection):
    grant = "grant select on tables to pg_monitor"
    connection.execute(f"alter default privileges for role sluice_owner in schema pgmq {grant}")
    connection.execute("select pgmq.create('orders'), pgmq.create_partitioned('parts', '10')")

    readable = rows(
        connection,
        "select relname from pg_class where relnamespace = 'pgmq'::regnamespace "
        "and relname ~ '^[qa]_(orders|parts)' and relkind in ('r', 'p') "
        "and has_table_privilege('pg_monitor', oid, 'select')",
    )
    assert readable == []


def test_an_admin_creates_and_drops_queues_without_being_superuser(granted):
    assert granted("sluice_admin", "select pgmq.create('mine'), pgmq.drop_queue('mine')") == [
        ("", True)
    ]
