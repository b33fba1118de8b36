"""sluice.notify_channel: the channel of a queue, in 63 bytes for any name."""

from __future__ import annotations

import pytest

from support import value

CHANNEL = "select sluice.notify_channel(%s)"


def test_the_channel_is_named_after_the_queues_table(connection):
    assert value(connection, CHANNEL, "orders") == "sluice.q_orders"


def test_upper_and_lower_case_name_the_same_queue_and_channel(connection):
    assert value(connection, CHANNEL, "Orders") == value(connection, CHANNEL, "orders")


@pytest.mark.parametrize("name", ["x" * 54, "x" * 55, "x" * 61, "ü" * 30, "q " * 24])
def test_a_channel_fits_into_63_bytes_whatever_the_name(connection, name):
    channel = value(connection, CHANNEL, name)

    connection.execute(f'listen "{channel}"')
    assert len(channel.encode()) <= 63
    assert value(connection, "select * from pg_listening_channels()") == channel


def test_long_names_that_differ_at_the_end_have_channels_of_their_own(connection):
    channels = {value(connection, CHANNEL, "x" * 58 + end) for end in ("", "a", "b")}

    assert len(channels) == 3


def test_no_name_is_no_channel(connection):
    assert value(connection, CHANNEL, None) is None
