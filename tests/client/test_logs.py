"""Further methods of the event log: settings, consumers, subconsumers, ticks and rotation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import ConsumerState, LogTick, NewEvent, RotationStep, Segment
from pgsluice.errors import (
    ArgumentError,
    LogNotFoundError,
    LogStateError,
)


def insert_and_tick(clients, log_name, *data):
    clients.log.insert_many(log_name, [NewEvent("t", item) for item in data])
    return clients.log.log_tick(log_name)


def opened(clients, log_name, consumer_name="c"):
    """Read and finish the consumer's next batch; return the data of its events."""
    batch_id = clients.log.next_batch(log_name, consumer_name)
    if batch_id is None:
        return None
    data = [event.ev_data for event in clients.log.get_batch_events(batch_id)]
    assert clients.log.finish_batch(batch_id)
    return data


def test_settings_are_changed_and_unknown_ones_refused(clients, log_name):
    clients.log.set_queue_config(log_name, "ticker_max_lag", "7 seconds")

    (info,) = clients.log.get_queue_info(log_name)
    assert info.queue_ticker_max_lag == timedelta(seconds=7)
    with pytest.raises(ArgumentError, match="cannot change parameter"):
        clients.log.set_queue_config(log_name, "nope", "1")


def test_the_table_for_a_copy_is_named_while_the_log_is_open(clients, log_name, observer):
    assert clients.log.current_event_table(log_name).startswith("pgq.event_")

    observer.execute(
        "update pgq.queue set queue_disable_insert = true where queue_name = %s", [log_name]
    )
    with pytest.raises(LogStateError, match="Writing to queue disabled"):
        clients.log.current_event_table(log_name)


def test_the_version_is_that_of_the_contract(clients):
    assert clients.log.version().startswith("3.5")


# --- consumers -----------------------------------------------------------------------------------


def test_a_consumer_goes_back_to_a_tick_that_is_kept(clients, log_name):
    clients.log.register_consumer(log_name, "c")
    first = insert_and_tick(clients, log_name, "one")
    insert_and_tick(clients, log_name, "two")
    assert [opened(clients, log_name) for _ in range(2)] == [["one"], ["two"]]

    assert clients.log.register_consumer_at(log_name, "c", first) is False
    assert clients.log.register_consumer_at(log_name, "new", first) is True

    assert opened(clients, log_name) == opened(clients, log_name, "new") == ["two"]
    with pytest.raises(LogStateError, match="tick not found"):
        clients.log.register_consumer_at(log_name, "c", 10**9)


def test_consumer_lag_is_reported(clients, log_name):
    clients.log.register_consumer(log_name, "c")
    insert_and_tick(clients, log_name, "one", "two")

    (state,) = clients.log.list_consumers(log_name)

    assert type(state) is ConsumerState
    assert (state.log_name, state.consumer_name, state.last_tick) == (log_name, "c", 1)
    assert state.lag_events == 2
    assert (state.open_batch, state.is_keeper, state.lost) == (None, False, None)
    assert log_name in {each.log_name for each in clients.log.list_consumers()}


def test_options_are_set_and_returned(clients, log_name):
    initial = clients.log.log_options(log_name)
    assert (initial.max_lag_events, initial.max_lag_time, initial.keepers) == (None, None, [])

    hour = timedelta(hours=1)
    changed = clients.log.set_log_options(
        log_name, ticker_max_count=7, max_lag_events=5, max_lag_time=hour, keepers=["lake"]
    )

    assert changed == "changed"
    options = clients.log.log_options(log_name)
    assert options == replace(
        initial, ticker_max_count=7, max_lag_events=5, max_lag_time=hour, keepers=["lake"]
    )
    assert options in clients.log.list_log_options()
    assert clients.log.set_log_options(log_name, max_lag_time=hour) == "unchanged"
    with pytest.raises(ArgumentError, match="not positive"):
        clients.log.set_log_options(log_name, max_lag_bytes=0)


def test_ticks_notify_between_listen_and_unlisten(make, shared_url, log_name, observer):
    clients = make.connection(shared_url, autocommit=True)
    channels = "select coalesce(max(c), 'none') from pg_listening_channels() as c"

    channel = clients.log.listen_log(log_name)
    assert clients.value(channels) == channel
    clients.log.unlisten_log(log_name)

    assert clients.value(channels) == "none"
    with pytest.raises(LogNotFoundError):
        clients.log.listen_log("nope")


# --- subconsumers --------------------------------------------------------------------------------


def test_subconsumers_get_batches_that_no_other_gets(clients, log_name):
    assert clients.log.register_subconsumer(log_name, "c", "one") is True
    assert clients.log.register_subconsumer(log_name, "c", "one") is False
    insert_and_tick(clients, log_name, "a")
    insert_and_tick(clients, log_name, "b")

    one = clients.log.coop_next_batch(log_name, "c", "one")
    two = clients.log.coop_next_batch_custom(log_name, "c", "two", min_count=1)

    data = [[e.ev_data for e in clients.log.get_batch_events(batch)] for batch in (one, two)]
    assert data == [["a"], ["b"]]
    assert clients.log.coop_next_batch(log_name, "c", "three") is None
    assert clients.log.coop_finish_batch(one) is True
    assert clients.log.coop_finish_batch(one) is False


def test_a_taken_over_batch_cannot_be_finished_by_its_first_owner(clients, log_name):
    clients.log.register_subconsumer(log_name, "c", "one")
    insert_and_tick(clients, log_name, "a")
    first = clients.log.coop_next_batch(log_name, "c", "one")

    second = clients.log.coop_next_batch(log_name, "c", "two", dead_interval=timedelta(0))

    assert [e.ev_data for e in clients.log.get_batch_events(second)] == ["a"]
    assert clients.log.coop_finish_batch(first) is False
    assert clients.log.coop_finish_batch(second) is True


def test_subconsumer_with_an_open_batch_is_removed_only_with_close_batch(clients, log_name):
    clients.log.register_subconsumer(log_name, "c", "one")
    insert_and_tick(clients, log_name, "a")
    clients.log.coop_next_batch(log_name, "c", "one")

    with pytest.raises(LogStateError, match="has active batch"):
        clients.log.unregister_subconsumer(log_name, "c", "one")
    assert clients.log.unregister_subconsumer(log_name, "c", "one", close_batch=True) == 1
    assert clients.log.unregister_subconsumer(log_name, "c", "one") == 0


# --- ticks and rotation --------------------------------------------------------------------------


def test_every_log_with_something_new_is_ticked(make, database_18):
    log = make.pool(database_18.url).log
    for name in ("a", "b", "c"):
        log.create(name)
    log.insert_event("a", "t", "x")
    log.insert_event("c", "t", "x")

    assert log.tick() == [LogTick("a", 2), LogTick("c", 2)]
    assert log.tick() == []
    assert log.log_tick("b") == 1


def test_a_forced_tick_is_made_by_the_next_ticker(clients, log_name, observer):
    clients.log.set_queue_config(log_name, "ticker_max_count", "500")
    clients.log.insert_event(log_name, "t", "x")
    assert clients.log.ticker(log_name) is None

    assert clients.log.force_tick(log_name) == 1

    assert clients.log.ticker(log_name) == 2


def test_a_log_with_a_ticker_outside_takes_its_ticks(clients, log_name):
    now = datetime.now(UTC)
    with pytest.raises(LogStateError):
        clients.log.ticker_external(log_name, 100, now, 1000)
    clients.log.set_queue_config(log_name, "external_ticker", "true")

    assert clients.log.ticker_external(log_name, 100, now, 1000) == 100

    (info,) = clients.log.get_queue_info(log_name)
    assert info.last_tick_id == 100


def test_a_log_is_rotated_and_its_segments_are_shown(clients, log_name):
    insert_and_tick(clients, log_name, "one")
    clients.log.set_queue_config(log_name, "rotation_period", "0")

    steps = clients.log.rotate(log_name)

    assert type(steps[0]) is RotationStep
    assert "switched" in {step.action for step in steps}
    segments = clients.log.list_segments(log_name)
    assert type(segments[0]) is Segment
    assert [segment.is_current for segment in segments].count(True) == 1
    with pytest.raises(LogNotFoundError):
        clients.log.rotate("nope")
    with pytest.raises(LogNotFoundError):
        clients.log.list_segments("nope")


def test_a_log_that_was_not_restored_is_not_repaired(clients, log_name):
    insert_and_tick(clients, log_name, "one")

    with pytest.raises(LogStateError):
        clients.log.after_restore(log_name)


# --- browsing ------------------------------------------------------------------------------------


def test_events_are_browsed_from_a_position(clients, log_name):
    insert_and_tick(clients, log_name, "one", "two" * 100, "three")

    newest, second = clients.log.browse_events(log_name, backward=True, qty=2, length_max=4)
    assert (newest.ev_data, second.ev_data, second.data_bytes) == ("thre", "twot", 300)
    (first,) = clients.log.browse_events(
        log_name, from_ev_txid=second.ev_txid, from_ev_id=second.ev_id, backward=True
    )
    assert first.ev_data == "one"


def test_position_of_an_event_and_of_a_time_are_returned(clients, log_name):
    insert_and_tick(clients, log_name, "one")
    (event,) = clients.log.browse_events(log_name)

    assert clients.log.event_position(log_name, event.ev_id) == (event.ev_txid, event.ev_id)
    assert clients.log.event_position(log_name, event.ev_id + 1) is None
    txid, ev_id = clients.log.event_position(log_name, moment=datetime.now(UTC))
    assert clients.log.browse_events(log_name, from_ev_txid=txid, from_ev_id=ev_id) == []
    for arguments in ({}, {"of_ev_id": 1, "moment": datetime.now(UTC)}):
        with pytest.raises(ArgumentError, match="either"):
            clients.log.event_position(log_name, **arguments)
    with pytest.raises(ArgumentError, match="time zone"):
        clients.log.event_position(log_name, moment=datetime(2026, 1, 1))  # noqa: DTZ001


def test_figures_of_a_log_are_returned(clients, log_name):
    tick_id = insert_and_tick(clients, log_name, "one", "two")

    (state,) = clients.log.list_log_states(search=log_name)

    assert (state.log_name, state.last_tick_id, state.ev_new) == (log_name, tick_id, 0)
    assert state.newest_ev_id >= 2
    assert clients.log.list_log_states(after_name=log_name, search=log_name, qty=1) == []
