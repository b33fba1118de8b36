import pytest

from support import rows, value
from support.queue_options import set_queue_options


@pytest.fixture
def queue(connection):
    connection.execute("select pgmq.create('q')")
    connection.execute(
        "select pgmq.send_batch('q', '{1, 2, 3}', array_fill('{\"x-pgmq-group\": \"k\"}'::jsonb, '{3}'))"
    )
    return connection


def next_room_s(connection):
    return value(
        connection,
        "select extract(epoch from sluice.next_capacity('q') - clock_timestamp())::float8",
    )


def claim(connection, qty=1):
    return rows(connection, "select msg_id from sluice.claim_messages('q', 30, %s)", qty)


def test_a_queue_without_limits_always_has_room(queue):
    assert next_room_s(queue) is None


def test_a_rate_says_when_it_has_room_again(queue):
    set_queue_options(queue, "q", rate=2, rate_interval="10 minutes")
    claim(queue)
    assert next_room_s(queue) is None
    queue.execute("update sluice.queue_start set started_at = started_at - interval '4 minutes'")
    claim(queue)

    assert 350 < next_room_s(queue) <= 360


@pytest.mark.parametrize(
    "limits", [{"fleet_concurrency": 1}, {"key_concurrency": 1}, {"when_waiting": "block"}]
)
def test_full_concurrency_limit_returns_a_short_poll(queue, limits):
    set_queue_options(queue, "q", **limits)
    claim(queue)

    assert 0 < next_room_s(queue) <= 0.25


def test_limits_are_not_reported_without_visible_messages(queue):
    set_queue_options(queue, "q", fleet_concurrency=3)
    assert len(claim(queue, 9)) == 3

    assert next_room_s(queue) is None
