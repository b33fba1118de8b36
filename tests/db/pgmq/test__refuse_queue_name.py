"""pgmq._refuse_queue_name: the error of a name with invalid characters."""

import psycopg
import pytest


def test_it_raises_pgmqs_error_with_the_name(connection):
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        connection.execute("select pgmq._refuse_queue_name('a;b')")

    assert caught.value.diag.message_primary.startswith("queue name contains invalid characters")
    assert caught.value.diag.message_detail == "The name is 'a;b'."


def test_a_caller_cannot_substitute_what_the_inlined_body_calls(connection):
    """format_table_name is inlined, and has no pinned search_path: its body was parsed at its creation."""
    connection.execute("create schema trap")
    connection.execute(
        "create function trap.lower(text) returns text language sql as $$ select 'trapped' $$"
    )
    connection.execute("set search_path = trap, pg_catalog")

    for call in ("format_table_name('Orders', 'q')", "_reader('Orders')"):
        connection.execute("select pgmq.create('orders')")
        assert connection.execute(f"select pgmq.{call}").fetchone() == ("q_orders",)
