"""The picture of a message's way in ARCHITECTURE.md, compared with the files that Python enters."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pgsluice
from pgsluice import WorkQueue
from pgsluice.tracing import switch
from pgsluice.worker import App
from pgsluice.worker.engine.flow.worker import Worker
from support import value
from support.runtime import running, until

PACKAGE = Path(pgsluice.__file__).parent
PICTURE = re.compile(r"^(?:your \w+|) +(\S+\.py) +\S", re.MULTILINE)
# Those of the picture and their helpers.
FILES_MAX = 46
MESSAGES = 3


class Entered:
    """The files of the package with a function that was called."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            self.files.add(path.relative_to(PACKAGE).as_posix())

    @contextmanager
    def tracing(self) -> Iterator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


async def test_picture_names_the_files_that_a_message_passes_through(
    worker_url, observer, queue_name, monkeypatch
):
    # As in a process that has not imported OpenTelemetry; tests of tracing in this one have.
    monkeypatch.setattr(switch, "_MODULES", ())
    entered = Entered()
    app = App(worker_url)

    @app.handler(queue_name)
    def handle(_payload: object) -> None:
        """Do nothing."""

    archived = f"select count(*) from pgmq.a_{queue_name}"
    threading.setprofile(entered)  # threads of handlers are started later
    try:
        async with running(Worker(app)):
            WorkQueue(observer).send(queue_name, {"n": 1})
            await until(lambda: value(observer, archived) == 1, "the first message")
            ways = []
            for count in range(2, 2 + MESSAGES):
                entered.files.clear()
                with entered.tracing():
                    WorkQueue(observer).send(queue_name, {"n": count})
                    await until(lambda n=count: value(observer, archived) == n, "the next message")
                ways.append(set(entered.files))
    finally:
        threading.setprofile(None)

    found = set.intersection(*ways)  # without reports that fell into the time of one
    text = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = set(PICTURE.findall(text.partition("## Message flow")[2].partition("## Event flow")[0]))
    assert 15 < len(drawn) <= 20
    # A delivery is a record: none of its functions is called.
    assert drawn - found <= {"worker/engine/delivery.py"}
    assert len(found) <= FILES_MAX, "\n".join(sorted(found))
