"""Tick, rotate, fire schedules, end prepared transactions, hold snapshots and reinstall.

Usage: `python -m chaos.everything.upkeep FOLDER NAME SEED`. One process with a thread for each
duty. Ledgers are truncated from one byte on, so nearly every pass does so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from chaos.everything.actor import Actor, arguments
from pgsluice import schema
from pgsluice.errors import SluiceError


class Upkeep(Actor):
    """One duty."""

    def tick(self) -> None:
        """Tick all logs, mostly by the fast path."""
        call = "sluice.tick()" if self.chance.random() < 0.9 else "pgq.ticker()"
        self.session.execute(f"select from {call}")
        time.sleep(0.02)

    def rotate(self) -> None:
        """Rotate and truncate everything possible, whatever its size."""
        steps = (
            "select from sluice.rotate()",
            "select sluice._maintain_ledgers(1)",
            "select pgq._maintain_positions(1)",
            "select pgq._maintain_retry(1, 500)",
        )
        for step in steps:
            self.session.execute(step)
        time.sleep(0.05)

    def maintain(self) -> None:
        """Move due events back into the logs, and maintain queues."""
        self.session.execute("select pgq.maint_retry_events()")
        if self.chance.random() < 0.2:
            self.session.execute("select from sluice.maintain()")
        time.sleep(0.1)

    def fire(self) -> None:
        """Fire schedules, concurrently with maintenance."""
        self.session.execute("select from sluice.fire_schedules()")
        time.sleep(0.2)

    def resolve(self) -> None:
        """Commit most prepared transactions and roll the others back, some after a while."""
        time.sleep(0.1)
        prepared = self.session.execute("select gid from pg_prepared_xacts order by gid").fetchall()
        for (txn,) in prepared:
            if self.wild(0.6):
                continue
            how = "rollback" if self.wild(0.25) else "commit"
            self.log.write("invoke", "resolve", {"txn": txn, "how": how})
            try:
                self.session.execute(f"{how} prepared '{txn}'")
            except psycopg.Error:
                self.log.write("info", "resolve")
                raise
            self.log.write("ok", "resolve")

    def hold(self) -> None:
        """Hold a snapshot for seconds."""
        self.session.execute("begin isolation level repeatable read")
        self.session.execute("select from sent limit 1")
        until = time.monotonic() + self.chance.random() * 3
        while time.monotonic() < until and not self.is_on("stop"):
            time.sleep(0.1)
        self.session.execute("commit")
        time.sleep(self.chance.random())

    def reinstall(self) -> None:
        """Reinstall the schemas under load."""
        until = time.monotonic() + self.chance.uniform(2, 6)
        while time.monotonic() < until:
            if self.is_on("stop") or self.is_on("calm"):
                time.sleep(0.1)
                return
            time.sleep(0.1)
        session = self.session
        session.execute("set lock_timeout = '5 s'")
        self.log.write("invoke", "reinstall")
        try:
            with session.transaction():
                schema.install(session)
        except SluiceError as error:
            self.log.write("info", "reinstall")
            raise error.__cause__ or error from None
        except psycopg.Error:
            self.log.write("info", "reinstall")
            raise
        self.log.write("ok", "reinstall")


def run(duty: Upkeep, step: Callable[[], None]) -> None:
    """Run a duty; report any error."""
    try:
        duty.run(step)
    except Exception as error:
        duty.report(error)


def main(folder: Path, name: str, seed: int) -> None:
    """Run all duties until the end of the run."""
    threads = []
    for number, duty in enumerate(
        ("tick", "rotate", "maintain", "fire", "resolve", "hold", "reinstall")
    ):
        actor = Upkeep(folder, f"{name}.{duty}", seed + number)
        threads.append(threading.Thread(target=run, args=(actor, getattr(actor, duty))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*arguments())
