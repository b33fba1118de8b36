import psycopg
import pytest

from support import value


@pytest.mark.parametrize("name", ["orders", "missing", None])
def test_it_warns_and_does_nothing(connection, queue, name):
    warnings = []
    connection.add_notice_handler(
        lambda diagnostic: warnings.append((diagnostic.severity, diagnostic.message_primary))
    )

    assert value(connection, "select pgmq.detach_archive(%s::text)", name) == ""

    assert warnings == [
        (
            "WARNING",
            "detach_archive(queue_name) is deprecated and is a no-op. It will be removed in PGMQ v2.0. "
            "Archive tables are no longer member objects.",
        )
    ]
    assert value(connection, "select to_regclass('pgmq.a_orders') is not null") is True


def test_a_name_that_cannot_be_one_is_refused(connection):
    with pytest.raises(psycopg.Error, match="queue name contains invalid characters"):
        connection.execute("select pgmq.detach_archive('a;b')")
