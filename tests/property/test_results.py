"""Kept results match a model: handlers with random outcomes, in every mode, in two workers at once.

The seed decides the step of each attempt of each message, but not the timing.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from pgsluice import WorkQueue
from pgsluice.worker import (
    App,
    Context,
    Done,
    Reject,
    Release,
    Retry,
    RetryPolicy,
    SyncContext,
    Worker,
)
from support import rows

MESSAGES = 40
STEPS = ["value", "value", "nothing", "done", "raise", "retry", "release", "reject", "no json"]
KINDS = [
    (mode, keep, is_async)
    for mode in ("lease", "own", "transaction")
    for keep in ("archive", "delete")
    for is_async in (True, False)
]


def act(step, n, attempt):
    match step:
        case "value":
            return {"n": n, "attempt": attempt}
        case "done":
            return Done()
        case "raise":
            raise ValueError(n)
        case "retry":
            raise Retry(0)
        case "release":
            return Release(0)
        case "reject":
            return Reject("no")
        case "no json":
            return {"n": object()}
    return None


def declare(app, name, kind, seed, ended):
    mode, keep, is_async = kind
    options = {
        "keep_result": "1h", "keep": keep, "retry": RetryPolicy(max_attempts=3, backoff_base_s=0),
        "mode": "transaction" if mode == "transaction" else "lease",
    }  # fmt: skip

    def run(n, context):
        deliveries = context.delivery.fence
        step = random.Random(f"{seed} {name} {n} {deliveries}").choice(STEPS)
        ended[name, context.message_id] = (step, n, context.attempt)
        return act(step, n, context.attempt)

    if is_async:

        @app.handler(name, name=name, **options)
        async def handle(n, context: Context):
            if mode == "own":
                async with context.transaction():
                    return run(n, context)
            return run(n, context)

    else:

        @app.handler(name, name=name, **options)
        def handle(n, context: SyncContext):
            if mode == "own":
                with context.transaction():
                    return run(n, context)
            return run(n, context)


@pytest.mark.slow
async def test_each_done_message_has_the_result_of_its_last_attempt(database_18, seed):
    app, ended = App(database_18.url, name="results"), {}
    names = [f"queue_{number}" for number in range(len(KINDS))]
    with database_18.connect() as connection:
        for name, kind in zip(names, KINDS, strict=True):
            WorkQueue(connection).create(name)
            WorkQueue(connection).send_batch(name, list(range(MESSAGES)))
            declare(app, name, kind, seed, ended)

        await asyncio.gather(*(Worker(app).run_until_empty(idle_s=0.5) for _ in range(2)))

        found = {
            (name, msg_id): (state, result, is_kept)
            for name in names
            for msg_id, state, result, is_kept in rows(
                connection,
                "select id, r.state, r.result, r.expires_at is not null "
                "from generate_series(1, %s) as id, sluice.get_result(%s, id) as r",
                *(MESSAGES, name),
            )
        }
    assert len(ended) == len(found) == MESSAGES * len(KINDS)
    for message, (step, n, attempt) in ended.items():
        if step in ("value", "nothing", "done"):
            result = {"n": n, "attempt": attempt} if step == "value" else None
            assert found[message] == ("done", result, True), (message, step)
        else:
            assert found[message] == ("dead", None, False), (message, step)
