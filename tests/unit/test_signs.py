"""What a listener makes of what it hears, and of silence."""

from __future__ import annotations

from pgsluice.worker.wakeups.signs import Kind, ListenerState, Signs

QUEUES = {Kind.QUEUE}
LOGS = {Kind.LOG}
BOTH = QUEUES | LOGS
HEARTBEAT_S = 10.0


def connected(*, is_direct=True):
    return Signs(HEARTBEAT_S, is_direct, since_s=100.0, asked_at_s=100.0)


def answered(signs, age_s, now_s, wanted=QUEUES, *, is_own_heard=True):
    return signs.answered(wanted, age_s, now_s, is_own_heard=is_own_heard)


def test_without_a_word_nothing_is_known():
    signs = connected()

    assert signs.state(QUEUES) is ListenerState.CONNECTING
    assert signs.check_at_s(QUEUES) == 115


def test_a_direct_connection_that_hears_itself_and_a_notifier_at_work_are_enough():
    signs = connected()
    assert answered(signs, 1.0, 100)
    assert signs.state(QUEUES) is ListenerState.LISTENING

    behind_something = connected(is_direct=False)
    assert answered(behind_something, 1.0, 100)
    assert behind_something.state(QUEUES) is ListenerState.CONNECTING
    behind_something.heard(Kind.QUEUE, "", 101)
    assert behind_something.state(QUEUES) is ListenerState.LISTENING


def test_each_sign_puts_the_question_off_and_silence_asks_it():
    signs = connected()
    for now_s in (104, 112, 120):
        signs.heard(Kind.QUEUE, "", now_s)
    assert signs.check_at_s(QUEUES) == 135

    assert answered(signs, 16.0, 135)
    assert signs.state(QUEUES) is ListenerState.NO_NOTIFIER
    assert signs.check_at_s(QUEUES) == 150


def test_a_notifier_that_says_that_it_goes_is_gone():
    signs = connected()
    signs.heard(Kind.QUEUE, "", 104)
    signs.heard(Kind.QUEUE, "gone", 105)
    assert signs.state(QUEUES) is ListenerState.NO_NOTIFIER

    signs.heard(Kind.QUEUE, "", 106)
    assert signs.state(QUEUES) is ListenerState.LISTENING


def test_one_that_hears_nothing_of_a_notifier_at_work_is_deaf_at_the_second_question():
    signs = connected(is_direct=False)
    signs.heard(Kind.QUEUE, "", 104)
    assert answered(signs, 1.0, 119)
    assert signs.check_at_s(QUEUES) == 124

    assert not answered(signs, 1.0, 124)


def test_one_that_does_not_hear_itself_is_deaf_at_the_second_question():
    signs = connected()
    assert answered(signs, 1.0, 100, is_own_heard=False)
    signs.heard(Kind.QUEUE, "", 101)
    assert answered(signs, 1.0, 116, is_own_heard=False), "it has heard something since"

    assert not answered(signs, 1.0, 121, is_own_heard=False)


def test_tickers_and_notifiers_are_told_apart():
    signs = connected()
    assert answered(signs, 1.0, 100, BOTH)
    assert signs.state(BOTH) is ListenerState.CONNECTING, "a ticker may give its first sign yet"
    assert answered(signs, 1.0, 115, BOTH)
    assert signs.state(BOTH) is ListenerState.NO_TICKER
    assert signs.state(QUEUES) is ListenerState.LISTENING

    signs.heard(Kind.LOG, "", 116)
    assert signs.state(BOTH) is ListenerState.LISTENING
    assert signs.state(LOGS) is ListenerState.LISTENING


def test_the_one_that_is_silent_is_asked_for_whatever_the_other_says():
    signs = connected()
    signs.heard(Kind.LOG, "", 101)
    signs.heard(Kind.QUEUE, "", 130)

    assert signs.check_at_s(BOTH) == 116
    assert signs.check_at_s(QUEUES) == 145
