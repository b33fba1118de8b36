"""The inbox, sync and async: it records idempotency keys in the caller's transaction."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgsluice.errors import ArgumentError
from support import value


def test_idempotency_key_is_kept_by_commit_and_not_by_rollback(caller, queue_name):
    inbox = caller.inbox()
    assert inbox.once(queue_name, "order 1") is True
    caller.source.rollback()
    assert inbox.once(queue_name, "order 1") is True
    caller.source.commit()

    assert inbox.once(queue_name, "order 1") is False
    assert inbox.once(queue_name, "order 2") is True


def test_key_is_kept_for_the_given_time(caller, queue_name, observer):
    caller.inbox().once(queue_name, "order 1", keep=timedelta(hours=1))
    caller.source.commit()

    left = (
        "select expires_at - now() between '59 min' and '1 h' from sluice.inbox where handler = %s"
    )
    assert value(observer, left, queue_name) is True


def test_a_key_that_could_not_be_known_is_refused(caller):
    with pytest.raises(ArgumentError, match="key has 0 bytes; use 1 to 1024 bytes"):
        caller.inbox().once("mailer", "")
