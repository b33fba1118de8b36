import psycopg
import pytest

from support import value


def test_a_log_is_found_by_its_name(connection, log):
    row = value(connection, "select pgq._require_log('changes')::text")
    assert row.startswith("(1,changes,")


@pytest.mark.parametrize("name", ["nothing", None])
def test_a_log_that_does_not_exist_is_named_with_a_hint(connection, log, name):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq._require_log(%s)", (name,))

    assert caught.value.sqlstate == "PQ001"
    shown = "NULL" if name is None else f"'{name}'"
    assert caught.value.diag.message_primary == f"event log {shown} does not exist"
    assert caught.value.diag.message_hint == f"create it with pgq.create_queue({shown})"
