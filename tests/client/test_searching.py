"""Methods of bounded searches, sync and async, on a pool and on a connection."""

from __future__ import annotations

import pytest

from pgsluice import FoundMessages
from pgsluice.errors import ArgumentError, PayloadError, QueueNotFoundError


def test_search_of_messages_is_continued(clients, queue_name):
    clients.queue.send_batch(queue_name, [{"n": n} for n in range(1, 6)])

    found = clients.operations.search_messages(queue_name, qty=2, of_state="visible")
    assert type(found) is FoundMessages
    assert ([each.message["n"] for each in found.messages], found.searched_msg_id) == ([5, 4], 4)
    rest = clients.operations.search_messages(queue_name, after_msg_id=4, conditional={"n": 2})
    assert ([each.message["n"] for each in rest.messages], rest.searched_msg_id) == ([2], None)
    bare = clients.operations.search_messages(queue_name, newest_first=False, with_contents=False)
    assert [each.message for each in bare.messages] == [None] * 5
    small = clients.operations.search_messages(queue_name, qty=1, message_bytes_max=1)
    assert ([each.message for each in small.messages], small.left_out) == ([None], {5})
    everywhere = clients.operations.search_messages(queue_name, "all", matching='"N": 4', qty=9)
    assert ([each.msg_id for each in everywhere.messages], everywhere.searched) == ([4], 5)
    unread = clients.operations.search_messages(queue_name, matching='"n": 4', searched_bytes_max=1)
    assert (unread.messages, unread.unsearched) == ([], 5)
    nothing = clients.operations.search_messages(queue_name, "archive")
    assert (nothing.messages, nothing.searched_msg_id) == ([], None)


def test_search_of_delayed_messages_is_continued_by_their_time(clients, queue_name):
    for delay in (300, 100, 200):
        clients.queue.send(queue_name, 1, delay=delay)

    seen, after = [], (None, None)
    while True:
        found = clients.operations.search_messages(
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


def test_invalid_arguments_are_named(clients, queue_name):
    with pytest.raises(ArgumentError, match="scan"):
        clients.operations.search_messages(queue_name, scan=0)
    with pytest.raises(ArgumentError, match="is not a state"):
        clients.operations.search_messages(queue_name, of_state="dead")
    with pytest.raises(PayloadError, match="conditional"):
        clients.operations.search_messages(queue_name, conditional=float("nan"))
    with pytest.raises(QueueNotFoundError, match="missing"):
        clients.operations.search_messages("missing")
