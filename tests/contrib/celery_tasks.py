"""Celery app with tasks for the feature tests; the worker process and the test both create it."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject


def make_app(dsn: str, **settings: Any) -> Celery:
    """Return the app; its result backend is the same database."""
    backend = "db+" + dsn.replace("postgresql://", "postgresql+psycopg://", 1)
    app = Celery("tests", broker=dsn, backend=backend, set_as_current=False)
    app.conf.update(
        broker_transport="pgsluice.contrib.kombu:Transport",
        broker_transport_options={"visibility_timeout": 3, "polling_interval": 0.1},
        **{
            "task_acks_late": True,
            "task_reject_on_worker_lost": True,
            "worker_send_task_events": True,
            "worker_lost_wait": 0.5,  # default: 10 seconds
            **settings,
        },
    )

    task = partial(app.task, shared=False)

    @task(name="add")
    def add(x, y):
        return x + y

    @task(name="total")
    def total(numbers):
        return sum(numbers)

    @task(
        name="flaky", bind=True, autoretry_for=(ValueError,), default_retry_delay=0, max_retries=2
    )
    def flaky(self):
        if self.request.retries < 2:
            raise ValueError("again")
        return self.request.retries

    @task(name="crash_once", bind=True)
    def crash_once(self):
        if not self.request.delivery_info["redelivered"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return "survived"

    @task(name="refuse", bind=True)
    def refuse(self):
        raise Reject("no", requeue=False)

    @task(name="work")
    def work(folder, number):
        """Record the start, wait for the gate file, and record the end."""
        with Path(folder, "started").open("a") as started:
            started.write(f"{number}\n")
        while not Path(folder, "gate").exists():
            time.sleep(0.02)
        with Path(folder, "done").open("a") as done:
            done.write(f"{number}\n")

    return app


if "CELERY_TEST_DSN" in os.environ:
    app = make_app(
        os.environ["CELERY_TEST_DSN"], task_acks_late="CELERY_TEST_EARLY" not in os.environ
    )
