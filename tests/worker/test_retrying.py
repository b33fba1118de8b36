"""Workers that stop when their queues are empty: messages left for a retry, and paused queues."""

from __future__ import annotations

from pgsluice import App, Operations, RetryPolicy, WorkQueue
from pgsluice.worker.engine.flow.worker import Worker


async def test_number_of_retries_and_the_next_time_are_logged(
    worker_url, observer, queue_name, caplog
):
    app = App(worker_url, name="tests")

    @app.handler(
        queue_name, retry=RetryPolicy(max_attempts=3, backoff_base_s=60, backoff_jitter=False)
    )
    async def handle(payload):
        if payload:
            raise ValueError(payload)

    work = WorkQueue(observer)
    work.send_batch(queue_name, ["secret 1", "secret 2", None])
    worker = Worker(app)

    await worker.run_until_empty(idle_s=0)

    assert worker.status().retrying == 2
    (next_at,) = {group.next_retry_at for group in Operations(observer).list_failing(queue_name)}
    (line,) = [each for each in caplog.messages if each.startswith("messages wait for a retry")]
    assert f"queue={queue_name} count=2 next_retry_at={next_at.isoformat()}" in line
    assert "error_type=ValueError" in line
    assert f"pgsluice queue failing {queue_name}" in line
    assert "secret" not in line


async def test_paused_queue_is_named(worker_url, observer, queue_name, caplog):
    app = App(worker_url, name="tests")

    @app.handler(queue_name)
    async def handle(payload):
        pass

    work = WorkQueue(observer)
    work.send(queue_name, 1)
    work.set_queue_options(queue_name, paused=True)
    worker = Worker(app)

    await worker.run_until_empty(idle_s=0)

    assert worker.status().retrying == 0
    (line,) = [each for each in caplog.messages if each.startswith("queue is paused")]
    assert f"pgsluice queue set {queue_name} paused=false" in line
