"""Base of all processes of a run: a session to the current server, and a history."""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import psycopg

from support.history import Log

# Errors that clients must expect while sessions are cancelled and terminated, servers stopped and
# locks held. Other errors are recorded as `unexpected`, and the reconciler reports them.
EXPECTED = {
    "57014",  # cancelled
    "57P01",  # terminated
    "57P02",  # the server crashed
    "57P03",  # the server is starting or stopping
    "40001",  # an older snapshot than the newest move or claim
    "55P03",  # lock not available
    "SG002",  # the claim was taken over
    "SG003",  # a crash undid the claim
    "SG005",  # another claim of the group takes long
    "PQ003",  # the batch was taken over
}


class StaleError(Exception):
    """A held claim is settled or was taken over: the transaction is rolled back."""


class Stopped(Exception):
    """The run is over."""


class Actor:
    """A loop of steps, each on an open session; an error ends its step."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        self.folder = folder
        self.name = name
        self.chance = random.Random(seed)
        self.log = Log(folder / "history", name)
        self.generation = 0
        self._session: psycopg.Connection | None = None
        self._number = 0

    def is_on(self, sign: str) -> bool:
        """True if the run has created a sign file: `stop`, `calm` or `sent`."""
        return (self.folder / sign).exists()

    def wild(self, probability: float) -> bool:
        """Return True with this probability; False once the run is calm."""
        return self.chance.random() < probability and not self.is_on("calm")

    def next_name(self) -> str:
        """Return a name that is unique in this run."""
        self._number += 1
        return f"{self.name}-{self._number}"

    @property
    def session(self) -> psycopg.Connection:
        """Return the session to the current server; a new session starts a new generation."""
        while self._session is None or self._session.closed:
            if self.is_on("stop"):
                raise Stopped
            self.generation += 1
            try:
                url = (self.folder / "url").read_text()
                self._session = psycopg.connect(
                    url, autocommit=True, application_name=f"actor {self.name}", connect_timeout=5
                )
            except (psycopg.OperationalError, FileNotFoundError):
                time.sleep(0.1)
        return self._session

    def run(self, *steps: Callable[[], None], sign: str = "stop") -> None:
        """Run the steps in turn until a sign exists."""
        try:
            while not self.is_on(sign):
                for step in steps:
                    self.attempt(step)
        except Stopped:
            pass

    def attempt(self, step: Callable[[], None]) -> bool:
        """Run a step; return False when an error ended it."""
        try:
            step()
        except StaleError:
            self.roll_back()
        except psycopg.Error as error:
            self.judge(error)
            self.roll_back()
        else:
            return True
        return False

    def judge(self, error: psycopg.Error) -> None:
        """Report an error unless a fault of the run explains it."""
        is_gone = isinstance(error, psycopg.OperationalError) and (
            error.sqlstate is None or self._session is None or self._session.closed
        )
        # A prepared transaction is busy until the session that prepared it has ended.
        is_busy = error.sqlstate == "55000" and "is busy" in str(error)
        if not is_gone and not is_busy and error.sqlstate not in EXPECTED:
            self.report(error)

    def report(self, error: BaseException) -> None:
        """Write an unexpected error to the history."""
        text = "".join(traceback.format_exception_only(error)).strip()
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{frame.name}:{frame.lineno}" for frame in frames if "chaos" in frame.filename]
        code = getattr(error, "sqlstate", None)
        self.log.write("invoke", "unexpected", {"error": text, "code": code, "at": places})

    def roll_back(self) -> None:
        """Roll back a failed transaction."""
        if self._session is not None and not self._session.closed:
            try:
                self._session.execute("rollback")
            except psycopg.Error:
                self._session.close()


def arguments() -> tuple[object, ...]:
    """Return folder, name, seed and further arguments of the command line."""
    folder, name, seed, *rest = sys.argv[1:]
    return Path(folder), name, int(seed), *rest
