"""Methods for table capture, sync and async, on a pool and on a connection."""

from __future__ import annotations

import itertools

import pytest

from pgsluice import Capture
from pgsluice.errors import (
    ArgumentError,
    CaptureError,
    LogNotFoundError,
    LogStateError,
    PayloadError,
    ServerError,
)
from support.site_settings import IS_ODD

_numbers = itertools.count(1)


@pytest.fixture
def table(observer):
    """A table of this test's own, with five rows."""
    name = f"account_{next(_numbers)}"
    observer.execute(f"create table {name} (id numeric primary key, name text)")
    observer.execute(f"insert into {name} select n + 0.1, 'a' from generate_series(1, 5) as n")
    yield name
    observer.execute(f"drop table {name}")


@pytest.mark.skipif(IS_ODD, reason="the session quotes all names")
def test_a_table_is_captured_listed_and_dropped(clients, log_name, table, observer):
    clients.log.capture(table, log_name)
    clients.log.capture(table, log_name, {"ignore": ["name"], "operations": ["update", "insert"]})

    assert clients.log.list_captures(log_name) == [
        Capture(
            table, log_name, {"ignore": ["name"], "operations": ["update", "insert"]},
            ["insert", "update"], True,
        )
    ]  # fmt: skip
    assert clients.log.list_captures(log_name)[0] in clients.log.list_captures()
    assert clients.log.drop_capture(table, log_name) is True
    assert clients.log.drop_capture(table, log_name) is False
    assert clients.log.list_captures(log_name) == []


def test_a_snapshot_is_taken_in_steps(clients, log_name, table, observer):
    clients.log.capture(table, log_name)
    clients.log.register_consumer(log_name, "copier")

    keys, key = [], None
    while not keys or key is not None:
        key = clients.log.capture_snapshot(table, log_name, after_key=key, qty=2)
        keys.append(key)

    assert keys == [{"id": "2.1"}, {"id": "4.1"}, {"id": "5.1"}, None]
    assert clients.log.ticker(log_name) is not None
    batch_id = clients.log.next_batch(log_name, "copier")
    events = clients.log.get_batch_events(batch_id)
    assert [(event.ev_type, event.ev_extra1) for event in events] == [("r", f"public.{table}")] * 5


@pytest.mark.skipif(IS_ODD, reason="the session quotes all names")
def test_errors_have_their_classes(clients, log_name, table):
    with pytest.raises(LogNotFoundError, match="create it with"):
        clients.log.capture(table, "missing")
    with pytest.raises(ArgumentError, match="has no option 'ignored'"):
        clients.log.capture(table, log_name, {"ignored": ["name"]})
    with pytest.raises(CaptureError, match="has no column no"):
        clients.log.capture(table, log_name, {"ignore": ["no"]})
    with pytest.raises(CaptureError, match="is not captured into"):
        clients.log.capture_snapshot(table, log_name)
    for call in (clients.log.capture, clients.log.drop_capture, clients.log.capture_snapshot):
        with pytest.raises(ServerError, match="does not exist"):
            call("no_such_table", log_name)

    clients.log.capture(table, log_name)
    for qty in (0, True, 2**31):
        with pytest.raises(ArgumentError):
            clients.log.capture_snapshot(table, log_name, qty=qty)
    with pytest.raises(ArgumentError, match="after_key is"):
        clients.log.capture_snapshot(table, log_name, after_key={"name": "a"})
    with pytest.raises(PayloadError):
        clients.log.capture_snapshot(table, log_name, after_key={"id": "x"})
    clients.log.drop_capture(table, log_name)


def test_a_caller_with_a_snapshot_of_its_own_is_refused(caller, log_name, table):
    caller.log.capture(table, log_name)
    caller.source.commit()
    caller.source.execute("set transaction isolation level repeatable read")

    with pytest.raises(LogStateError, match="READ COMMITTED"):
        caller.log.capture_snapshot(table, log_name)
    caller.source.rollback()
    caller.log.drop_capture(table, log_name)
    caller.source.commit()
