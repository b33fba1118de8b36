import psycopg
import pytest

from support import rows

CHECK = "select sluice._require_partition_settings(%s, %s, 1)"


@pytest.mark.parametrize(
    ("interval", "retention"),
    [("1", "0"), ("2147483647", "9000000000"), ("1 second", "0"), ("1 day", None), ("90 minutes", "1 month"),
     ("2 months", "1 year"), ("1 year", "10 days")],
)  # fmt: skip
def test_whole_numbers_fixed_times_and_whole_months_make_partitions(
    connection, interval, retention
):
    assert rows(connection, CHECK, interval, retention) == [("",)]


@pytest.mark.parametrize(
    ("interval", "retention"),
    [("0", None), ("-5", None), ("0.5 seconds", None), ("1 month 1 day", None), ("-1 month", None),
     ("2 months 3 hours", "1 year"), ("10", "-1"), ("1 day", "-1 day"), ("infinity", None)],
)  # fmt: skip
def test_all_else_is_refused_with_a_hint(connection, interval, retention):
    if interval == "infinity" and connection.info.server_version < 170000:
        pytest.skip("intervals are infinite from PostgreSQL 17 on")

    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        connection.execute(CHECK, (interval, retention))

    assert "pass both as numbers" in caught.value.diag.message_hint
