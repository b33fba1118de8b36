"""Acts of an operator in the dashboard: the rights that they need, and their names in the record of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from pgsluice.client.calls.call import Call, one, scalar


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of the session.

    Attributes:
        role_name: The role whose rights it has.
        is_standby: True if the server is a standby, which refuses all writes.
        missing: The functions that the role may not call.
        now: The time of the server.
        hint: The statement that grants what is missing.
    """

    role_name: str
    is_standby: bool
    missing: list[str]
    now: datetime
    hint: str


def rights(functions: Sequence[str]) -> Call[Rights]:
    """Return the rights of the session.

    Args:
        functions: Functions with the types of their arguments: `sluice.set_queue_options(text,jsonb,text)`.
    """
    # The condition names the schema if that is missing, before a function of it.
    sql: LiteralString = """
        select current_user, pg_is_in_recovery(),
            array(
                select f.name from unnest(%s::text[]) as f (name) where not has_function_privilege(f.name, 'execute')
            ),
            clock_timestamp(), format('grant sluice_admin to %%I', current_user)
        where 'sluice'::regnamespace is not null"""
    return Call(sql, (list(functions),), one(Rights))


def name_application(name: str) -> Call[str]:
    """Set application_name for this transaction; the server shortens it to 63 bytes."""
    return Call("select set_config('application_name', %s::text, true)", (name,), scalar)


def send_json(queue_name: str, message: str, headers: str | None, delay_s: int) -> Call[int]:
    """Send one message that is given as JSON text, with every digit of its numbers; return its msg_id."""
    sql: LiteralString = "select * from pgmq.send(%s::text, %s::jsonb, %s::jsonb, %s::integer)"
    return Call(sql, (queue_name, message, headers, delay_s), scalar, queue_name)
