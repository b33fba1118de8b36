import psycopg
import pytest

from support import value


@pytest.mark.parametrize(
    ("name", "given", "stored"),
    [
        ("ticker_max_count", "7", "7"),
        ("ticker_max_lag", "5 s", "00:00:05"),
        ("ticker_idle_period", "1 hour", "01:00:00"),
        ("ticker_paused", "on", "true"),
        ("rotation_period", "0", "00:00:00"),
        ("external_ticker", "t", "true"),
        ("ticker_max_count", "-5", "-5"),
    ],
)
def test_a_setting_is_changed_in_this_log_only(connection, name, given, stored):
    connection.execute("select pgq.create_queue('changes'), pgq.create_queue('other')")

    assert value(connection, "select pgq.set_queue_config('changes', %s, %s)", name, given) == 1

    column = f"select queue_{name}::text from pgq.queue where queue_name = %s"
    assert value(connection, column, "changes") == stored
    assert value(connection, column, "other") != stored


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((None, "ticker_paused", "t"), "22004", "Invalid NULL value"),
        (("changes", None, "t"), "22004", "Invalid NULL value"),
        (("missing", "nope", "1"), "PQ001", "No such event queue"),
        (("changes", "nope", "1"), "22023", 'cannot change parameter "nopes"'),
        (("changes", "ntables", "1"), "22023", 'cannot change parameter "ntabless"'),
        (
            ("changes", "ticker_paused", None),
            "22004",
            "query string argument of EXECUTE is null",
        ),
        (
            ("changes", "ticker_max_lag", "abc"),
            "22007",
            'invalid input syntax for type interval: "abc"',
        ),
    ],
)
def test_errors(connection, arguments, code, message):
    connection.execute("select pgq.create_queue('changes')")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.set_queue_config(%s, %s, %s)", arguments)
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (code, message)
