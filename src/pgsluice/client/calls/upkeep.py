"""What a process asks of the database before it works there, and who keeps it in order, as calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pgsluice.client.calls.call import Call, record, scalar


class Server(NamedTuple):
    """Where a session has got.

    Attributes:
        backend_pid: The number of the server's process; another one than the client was given behind a pooler.
        is_standby: It copies another server, and takes no writes.
        is_read_only: Transactions are read-only unless they say otherwise.
        role_name: Who this session is.
        database_name: Where.
    """

    backend_pid: int
    is_standby: bool
    is_read_only: bool
    role_name: str
    database_name: str


class ExtraMaintenance(NamedTuple):
    """A function that a log names in `queue_extra_maint`, to be called with the log's name."""

    queue_name: str
    function_name: str


def server() -> Call[Server]:
    return Call(
        "select pg_backend_pid(), pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean, "
        "current_user::text, current_database()::text",
        (),
        lambda rows: Server(*rows[0]),
    )


def forbidden(function_names: Sequence[str]) -> Call[list[str]]:
    """Of these functions, `schema.name`, those that are there and that the session may not call."""
    return Call(
        "select distinct format('%%s.%%s', n.nspname, p.proname) "
        "from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace "
        "where format('%%s.%%s', n.nspname, p.proname) = any (%s::text[]) "
        "and not (has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute')) "
        "order by 1",
        (list(function_names),),
        lambda rows: [row[0] for row in rows],
    )


def lead(backend_pid: int) -> Call[bool | None]:
    return Call("select sluice.lead(%s::integer)", (backend_pid,), scalar)


def list_extra_maint() -> Call[list[ExtraMaintenance]]:
    return Call(
        "select queue_name, function_name from sluice.list_extra_maint()",
        (),
        record(ExtraMaintenance),
    )


def run_extra_maint(queue_name: str, function_name: str) -> Call[bool]:
    return Call(
        "select sluice.run_extra_maint(%s::text, %s::text)", (queue_name, function_name), scalar
    )
