"""The runner of several pipelines: start order, restarts after failures, and shutdown."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from pgsluice.errors import ConfigurationError, ConnectionFailedError, ServerError
from pgsluice.pipelines.runner import PipelineRunner, RunnerTimes, Task, Tell
from pgsluice.spark.running import Progress
from support import wait_until

FAST = RunnerTimes(backoff_base_s=0.01, backoff_max_s=0.05, poll_s=0.01, progress_s=0.0)
DEADLINE_S = 20


class FakeStream:
    """A stream whose state the test sets."""

    def __init__(self, *, is_ready: bool = True) -> None:
        self.rows = 0
        self.is_ready = is_ready
        self.ended = False
        self.failure: BaseException | None = None
        self.stopped = False

    def has_ended(self) -> bool:
        if self.failure is not None:
            raise self.failure
        return self.ended

    def progress(self) -> Progress:
        return Progress(rows=self.rows, offset={"tick": 1} if self.is_ready else None)

    def stop(self) -> Progress:
        self.stopped = True
        return self.progress()


class Starts:
    """Factory that records the streams it has started."""

    def __init__(self, **stream: bool) -> None:
        self.streams: list[FakeStream] = []
        self._stream = stream

    def __call__(self, _stop: threading.Event, _tell: Tell) -> FakeStream:
        self.streams.append(FakeStream(**self._stream))
        return self.streams[-1]


class Background:
    """A runner in a background thread."""

    def __init__(self, *tasks: Task, pace: RunnerTimes = FAST) -> None:
        self.stop = threading.Event()
        self.failed: dict[str, Exception] | None = None
        self.raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(tasks, pace))
        self._thread.start()

    def _run(self, tasks: tuple[Task, ...], pace: RunnerTimes) -> None:
        try:
            self.failed = dict(PipelineRunner(self.stop, pace=pace).run(tasks))
        except BaseException as error:
            self.raised = error

    def join(self, *, stop: bool = False) -> None:
        if stop:
            self.stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


def until(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, what, DEADLINE_S)


def test_streams_stop_on_request():
    starts = [Starts(), Starts()]
    running = Background(Task("a", starts[0]), Task("b", starts[1]))

    until(lambda: all(one.streams for one in starts), "both to run")
    running.join(stop=True)

    assert [one.streams[0].stopped for one in starts] == [True, True]
    assert running.failed == {}


def test_next_stream_starts_when_the_previous_one_is_ready():
    starts = Starts(is_ready=False)
    running = Background(Task("a", starts), Task("b", starts))

    until(lambda: bool(starts.streams), "one to start")
    assert not running.stop.wait(0.1)
    assert len(starts.streams) == 1
    starts.streams[0].is_ready = True
    until(lambda: len(starts.streams) == 2, "the other to start")
    running.join(stop=True)

    assert all(stream.stopped for stream in starts.streams)


def test_task_outside_the_start_order_starts_at_once():
    stream, began = Starts(is_ready=False), threading.Event()

    def job(stop: threading.Event, _tell: Tell) -> Progress:
        began.set()
        assert stop.wait(DEADLINE_S)
        return Progress(rows=1)

    running = Background(Task("stream", stream), Task("job", job, starts_in_turn=False))
    until(lambda: bool(stream.streams), "the stream to hold the turn")

    assert began.wait(DEADLINE_S)
    running.join(stop=True)


def test_failed_pipeline_is_restarted_and_others_continue():
    fails, stays = Starts(), Starts()
    running = Background(Task("fails", fails), Task("stays", stays))

    for number in range(1, 4):
        until(lambda number=number: len(fails.streams) == number, f"start {number}")
        fails.streams[-1].failure = ConnectionFailedError("the server is away")
    until(lambda: len(fails.streams) == 4, "start 4")
    running.join(stop=True)

    assert len(stays.streams) == 1
    assert running.failed == {}


def test_pipeline_with_a_permanent_error_stops_and_others_continue():
    fails, stays = Starts(), Starts()
    running = Background(Task("fails", fails), Task("stays", stays))
    until(lambda: bool(fails.streams and stays.streams), "both to run")

    fails.streams[0].failure = ConfigurationError("the table has other columns")
    assert not running.stop.wait(0.2)
    running.join(stop=True)

    assert len(fails.streams) == 1
    assert stays.streams[0].stopped
    assert [str(error) for error in (running.failed or {}).values()] == [
        "the table has other columns"
    ]


def test_unexpected_error_stops_all_streams():
    fails, stays = Starts(), Starts()
    running = Background(Task("fails", fails), Task("stays", stays))
    until(lambda: bool(fails.streams and stays.streams), "both to run")

    fails.streams[0].failure = OSError("Java is gone")
    running.join()

    assert stays.streams[0].stopped
    assert isinstance(running.raised, OSError)


def test_runner_ends_when_all_streams_have_ended():
    starts = Starts()
    running = Background(Task("a", starts))
    until(lambda: bool(starts.streams), "it to run")

    starts.streams[0].ended = True
    running.join()

    assert running.failed == {}


def test_a_stream_that_hangs_is_left_after_a_while(caplog: pytest.LogCaptureFixture):
    class Hanging(FakeStream):
        def stop(self) -> Progress:
            leave.wait(DEADLINE_S)
            return super().stop()

    started, leave = threading.Event(), threading.Event()

    def start(_stop: threading.Event, _tell: Tell) -> FakeStream:
        started.set()
        return Hanging()

    running = Background(Task("hangs", start), pace=RunnerTimes(poll_s=0.01, stop_s=0.1))
    assert started.wait(DEADLINE_S)
    running.join(stop=True)
    leave.set()

    assert "did not stop in time" in caplog.text


def test_progress_on_a_backlog_has_its_part_and_the_time_left(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "pgsluice")

    def read(_stop: threading.Event, tell: Tell) -> Progress:
        tell(Progress(rows=0, rows_left=40))
        tell(Progress(rows=30, micro_batches=1, rows_left=10))
        return Progress(rows=40, micro_batches=2, rows_left=0)

    PipelineRunner(threading.Event(), pace=FAST).run_once([Task("orders", read)])

    first, second = [
        record.__dict__ for record in caplog.records if record.getMessage() == "progress"
    ]
    assert "percent" not in first
    assert (second["percent"], second["left_s"]) == (75.0, 0)


def test_progress_is_reported_when_it_changes(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "pgsluice")
    starts = Starts()
    running = Background(Task("orders", starts))
    until(lambda: bool(starts.streams), "it to run")

    def reported_rows() -> list[int]:
        return [
            record.__dict__["rows"]
            for record in caplog.records
            if record.getMessage() == "progress" and record.__dict__["pipeline"] == "orders"
        ]

    until(lambda: reported_rows() == [0], "the first offset")
    starts.streams[0].rows = 7
    until(lambda: reported_rows() == [0, 7], "the next progress")
    running.join(stop=True)


def test_run_once_runs_tasks_in_order():
    order: list[str] = []

    def job(name: str) -> Task:
        def start(_stop: threading.Event, _tell: Tell) -> Progress:
            order.append(name)
            return Progress(rows=len(order))

        return Task(name, start)

    done = PipelineRunner(threading.Event(), pace=FAST).run_once([job("b"), job("a")])

    assert order == ["b", "a"]
    assert {name: progress.rows for name, progress in done.items()} == {"b": 1, "a": 2}


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [
        (ServerError("busy"), FAST.attempts_once),
        (ConfigurationError("wrong"), 1),
        (ConnectionFailedError("down"), 1),
    ],
)
def test_run_once_retries_only_errors_that_may_pass(failure: Exception, attempts: int):
    tried = []

    def start(_stop: threading.Event, _tell: Tell) -> Progress:
        tried.append(1)
        raise failure

    with pytest.raises(type(failure), match=str(failure)):
        PipelineRunner(threading.Event(), pace=FAST).run_once([Task("a", start)])

    assert len(tried) == attempts


def test_run_once_retries_a_connection_lost_after_progress():
    tried = []

    def start(_stop: threading.Event, tell: Tell) -> Progress:
        tried.append(1)
        tell(Progress(rows=1))
        raise ConnectionFailedError("gone")

    with pytest.raises(ConnectionFailedError):
        PipelineRunner(threading.Event(), pace=FAST).run_once([Task("a", start)])

    assert len(tried) == FAST.attempts_once


def test_delays_grow_to_a_limit_with_jitter():
    pace = RunnerTimes(backoff_base_s=1, backoff_max_s=60)

    for failures, longest_s in ((1, 1), (2, 2), (5, 16), (7, 60), (5000, 60)):
        delays = {pace.delay_s(failures) for _ in range(50)}

        assert len(delays) > 1
        assert all(longest_s / 2 <= delay_s <= longest_s for delay_s in delays)
