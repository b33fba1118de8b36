"""Count statements of sessions in the server's log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.place import Place


class Statement(NamedTuple):
    """Logged statement: its session, and its first line."""

    pid: int
    application_name: str
    database: str
    text: str


@contextmanager
def logged(place: Place) -> Iterator[Callable[[], list[Statement]]]:
    """Log the statements of all sessions of a server.

    Yields:
        A function that returns the statements since its previous call.
    """
    place.connection.execute("alter system set log_line_prefix = '%p|%a|%d|'")
    place.connection.execute("alter system set log_statement = 'all'")
    begin = place.server.log.stat().st_size

    def since() -> list[Statement]:
        nonlocal begin
        with place.server.log.open("rb") as log:
            log.seek(begin)
            lines = log.read().decode("utf-8", "replace").splitlines()
            begin = log.tell()
        found = (
            re.match(r"(\d+)\|(.*?)\|(.*?)\|LOG:  (?:statement|execute .*?): (.*)", s)
            for s in lines
        )
        return [Statement(int(match[1]), match[2], match[3], match[4]) for match in found if match]

    try:
        place.connection.execute("select pg_reload_conf()")
        yield since
    finally:
        place.connection.execute("alter system reset log_statement")
        place.connection.execute("alter system reset log_line_prefix")
        place.connection.execute("select pg_reload_conf()")
