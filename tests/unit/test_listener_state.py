"""State of a listener after notifications and silence."""

from __future__ import annotations

from pgsluice.worker.wakeups.listener_state import Heartbeats, Kind, ListenerState

QUEUES = {Kind.QUEUE}
LOGS = {Kind.LOG}
BOTH = QUEUES | LOGS
HEARTBEAT_S = 10.0


def connected(*, is_direct=True):
    return Heartbeats(HEARTBEAT_S, is_direct, since_s=100.0, probed_at_s=100.0)


def record_response(heartbeats, age_s, now_s, wanted=QUEUES, *, is_own_received=True):
    return heartbeats.record_response(wanted, age_s, now_s, is_own_received=is_own_received)


def test_listener_is_connecting_before_its_first_notification():
    heartbeats = connected()

    assert heartbeats.state(QUEUES) is ListenerState.CONNECTING
    assert heartbeats.check_at_s(QUEUES) == 115


def test_notifier_that_never_ran_is_reported_as_missing_after_the_time_of_its_heartbeat():
    heartbeats = connected()
    assert record_response(heartbeats, None, 100)
    assert heartbeats.state(QUEUES) is ListenerState.CONNECTING, "it may be about to start"

    assert record_response(heartbeats, None, heartbeats.check_at_s(QUEUES))
    assert heartbeats.state(QUEUES) is ListenerState.NO_NOTIFIER


def test_direct_connection_listens_once_it_receives_its_own_notification():
    heartbeats = connected()
    assert record_response(heartbeats, 1.0, 100)
    assert heartbeats.state(QUEUES) is ListenerState.LISTENING

    behind_pooler = connected(is_direct=False)
    assert record_response(behind_pooler, 1.0, 100)
    assert behind_pooler.state(QUEUES) is ListenerState.CONNECTING
    behind_pooler.record(Kind.QUEUE, "", 101)
    assert behind_pooler.state(QUEUES) is ListenerState.LISTENING


def test_each_heartbeat_postpones_the_probe():
    heartbeats = connected()
    for now_s in (104, 112, 120):
        heartbeats.record(Kind.QUEUE, "", now_s)
    assert heartbeats.check_at_s(QUEUES) == 135

    assert record_response(heartbeats, 16.0, 135)
    assert heartbeats.state(QUEUES) is ListenerState.NO_NOTIFIER
    assert heartbeats.check_at_s(QUEUES) == 150


def test_resigned_notifier_is_reported_as_missing():
    heartbeats = connected()
    heartbeats.record(Kind.QUEUE, "", 104)
    heartbeats.record(Kind.QUEUE, "gone", 105)
    assert heartbeats.state(QUEUES) is ListenerState.NO_NOTIFIER

    heartbeats.record(Kind.QUEUE, "", 106)
    assert heartbeats.state(QUEUES) is ListenerState.LISTENING


def test_listener_without_notifications_of_a_running_notifier_is_deaf_at_the_second_probe():
    heartbeats = connected(is_direct=False)
    heartbeats.record(Kind.QUEUE, "", 104)
    assert record_response(heartbeats, 1.0, 119)
    assert heartbeats.check_at_s(QUEUES) == 124

    assert not record_response(heartbeats, 1.0, 124)


def test_listener_that_misses_its_own_notification_is_deaf_at_the_second_probe():
    heartbeats = connected()
    assert record_response(heartbeats, 1.0, 100, is_own_received=False)
    heartbeats.record(Kind.QUEUE, "", 101)
    assert record_response(heartbeats, 1.0, 116, is_own_received=False), (
        "it has received another notification since"
    )

    assert not record_response(heartbeats, 1.0, 121, is_own_received=False)


def test_heartbeats_of_tickers_and_notifiers_are_distinguished():
    heartbeats = connected()
    assert record_response(heartbeats, 1.0, 100, BOTH)
    assert heartbeats.state(BOTH) is ListenerState.CONNECTING, (
        "the first heartbeat of a ticker may still arrive"
    )
    assert record_response(heartbeats, 1.0, 115, BOTH)
    assert heartbeats.state(BOTH) is ListenerState.NO_TICKER
    assert heartbeats.state(QUEUES) is ListenerState.LISTENING

    heartbeats.record(Kind.LOG, "", 116)
    assert heartbeats.state(BOTH) is ListenerState.LISTENING
    assert heartbeats.state(LOGS) is ListenerState.LISTENING


def test_probe_is_due_for_the_silent_one_of_ticker_and_notifier():
    heartbeats = connected()
    heartbeats.record(Kind.LOG, "", 101)
    heartbeats.record(Kind.QUEUE, "", 130)

    assert heartbeats.check_at_s(BOTH) == 116
    assert heartbeats.check_at_s(QUEUES) == 145
