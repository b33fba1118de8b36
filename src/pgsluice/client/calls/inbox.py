"""What handlers have done once, as calls; argument names are those of schema `sluice`."""

from __future__ import annotations

from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.call import Call, scalar


def once(handler: str, key: str, keep: timedelta = timedelta(days=7)) -> Call[bool]:
    sql: LiteralString = "select sluice.once(%s::text, %s::text, %s::interval)"
    return Call(sql, (handler, key, keep), scalar)
