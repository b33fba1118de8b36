"""Tick and rotate until stopped: `python -m chaos.maintainer URL HISTORY`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psycopg

from chaos.consumer import LOG
from chaos.sessions import connect, is_gone


def maintain(url: str, stop: Path) -> None:
    session = connect(url)
    rotated = time.monotonic()
    while not stop.exists():
        time.sleep(0.05)
        if session.closed:
            session = connect(url)
        try:
            session.execute("select pgq.ticker(%s)", [LOG])
            if time.monotonic() > rotated + 0.5:
                session.execute("select sluice.rotate(%s)", [LOG])
                rotated = time.monotonic()
        except psycopg.Error as error:
            if not is_gone(session, error):
                raise


if __name__ == "__main__":
    maintain(sys.argv[1], Path(sys.argv[2]).parent / "stop")
