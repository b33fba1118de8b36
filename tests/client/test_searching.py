"""Methods of bounded searches, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import datetime

import pytest

from pgsluice import DeadLetterGroup, FoundDeadLetters, FoundMessages
from pgsluice.errors import ArgumentError, PayloadError, QueueNotFoundError


def test_search_of_messages_is_continued(clients, queue_name):
    clients.queue.send_batch(queue_name, [{"n": n} for n in range(1, 6)])

    found = clients.queue.search_messages(queue_name, qty=2, of_state="visible")
    assert type(found) is FoundMessages
    assert ([each.message["n"] for each in found.messages], found.searched_msg_id) == ([5, 4], 4)
    rest = clients.queue.search_messages(queue_name, after_msg_id=4, conditional={"n": 2})
    assert ([each.message["n"] for each in rest.messages], rest.searched_msg_id) == ([2], None)
    bare = clients.queue.search_messages(queue_name, newest_first=False, with_contents=False)
    assert [each.message for each in bare.messages] == [None] * 5
    small = clients.queue.search_messages(queue_name, qty=1, message_bytes_max=1)
    assert ([each.message for each in small.messages], small.left_out) == ([None], {5})
    nothing = clients.queue.search_messages(queue_name, "archive")
    assert (nothing.messages, nothing.searched_msg_id) == ([], None)


def test_search_of_delayed_messages_is_continued_by_their_time(clients, queue_name):
    for delay in (300, 100, 200):
        clients.queue.send(queue_name, 1, delay=delay)

    seen, after = [], (None, None)
    while True:
        found = clients.queue.search_messages(
            queue_name,
            of_state="delayed",
            newest_first=False,
            qty=1,
            after_msg_id=after[0],
            after_vt=after[1],
        )
        seen += [each.msg_id for each in found.messages]
        after = (found.searched_msg_id, found.searched_vt)
        if after[0] is None:
            break

    assert seen == [2, 3, 1]


def test_dead_letters_are_grouped_and_searched(clients, queue_name):
    clients.queue.send_batch(queue_name, [1, 2, 3])
    for message in clients.queue.read(queue_name, 60, 3):
        clients.queue.reject(queue_name, message.msg_id, 1, "bad", f"row {message.msg_id}")

    (group,) = clients.queue.group_dead_letters(queue_name)
    assert type(group) is DeadLetterGroup
    assert (group.reason, group.error_type, group.error, group.letters) == ("bad", "", "row #", 3)
    found = clients.queue.search_dead_letters(queue_name, qty=2, error=group.error)
    assert type(found) is FoundDeadLetters
    assert [each.message for each in found.letters] == [3, 2]
    bare = clients.queue.search_dead_letters(queue_name, qty=1, with_contents=False)
    assert (bare.letters[0].message, bare.letters[0].error) == (None, "row 3")
    rest = clients.queue.search_dead_letters(
        queue_name, before_dead_letter_id=found.searched_dead_letter_id
    )
    assert ([each.message for each in rest.letters], rest.searched_dead_letter_id) == ([1], None)


def test_invalid_arguments_are_named(clients, queue_name):
    with pytest.raises(ArgumentError, match="scan"):
        clients.queue.search_messages(queue_name, scan=0)
    with pytest.raises(ArgumentError, match="is not a state"):
        clients.queue.search_messages(queue_name, of_state="dead")
    with pytest.raises(PayloadError, match="conditional"):
        clients.queue.search_messages(queue_name, conditional=float("nan"))
    with pytest.raises(ArgumentError, match="since"):
        clients.queue.search_dead_letters(queue_name, since=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(QueueNotFoundError, match="missing"):
        clients.queue.search_messages("missing")
