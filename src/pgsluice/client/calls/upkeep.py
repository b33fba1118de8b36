"""What a process asks of the database before it works there, and who keeps it in order, as calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pgsluice.client.calls.call import Call, column, one, record, scalar
from pgsluice.client.calls.clients import EventLog, method


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


class Connections(NamedTuple):
    """What bounds the connections of a role, and how many there are now, that of the call left out.

    Attributes:
        role_name: Who this session logged in as.
        server_max: What the server has for this role: `max_connections` less what is reserved for others.
        server_used: Connections of clients.
        role_max: The `CONNECTION LIMIT` of the role, or None.
        role_used: Connections of the role.
        database_max: The `CONNECTION LIMIT` of the database, or None.
        database_used: Connections to the database.
    """

    role_name: str
    server_max: int
    server_used: int
    role_max: int | None
    role_used: int
    database_max: int | None
    database_used: int

    @property
    def left(self) -> int:
        """How many more this role may open."""
        return max(0, min(limit - used for _, limit, used in self._bounds()))

    def described(self) -> str:
        """Return the bounds as text: `server 12 of 97, database 3 of 20`."""
        return ", ".join(f"{name} {used} of {limit}" for name, limit, used in self._bounds())

    def _bounds(self) -> list[tuple[str, int, int]]:
        bounds = [("server", self.server_max, self.server_used)]
        if self.role_max is not None:
            bounds.append(("role", self.role_max, self.role_used))
        if self.database_max is not None:
            bounds.append(("database", self.database_max, self.database_used))
        return bounds


class ExtraMaintenance(NamedTuple):
    """A function that a log names in `queue_extra_maint`, to be called with the log's name."""

    queue_name: str
    function_name: str


def server() -> Call[Server]:
    return Call(
        "select pg_backend_pid(), pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean, "
        "current_user::text, current_database()::text",
        (),
        one(Server),
    )


def connections_left() -> Call[Connections]:
    """A session that belongs to another role shows its database, and not always its kind."""
    return Call(
        "select r.rolname::text, "
        "current_setting('max_connections')::integer - case when r.rolsuper then 0 else "
        "current_setting('superuser_reserved_connections')::integer "
        "+ coalesce(current_setting('reserved_connections', true), '0')::integer end, "
        "a.server_used::integer, "
        "case when r.rolconnlimit >= 0 and not r.rolsuper then r.rolconnlimit end, a.role_used::integer, "
        "case when d.datconnlimit >= 0 and not r.rolsuper then d.datconnlimit end, a.database_used::integer "
        "from pg_catalog.pg_roles as r, pg_catalog.pg_database as d, lateral ("
        "select count(*) as server_used, count(*) filter (where s.usesysid = r.oid) as role_used, "
        "count(*) filter (where s.datid = d.oid) as database_used "
        "from pg_catalog.pg_stat_activity as s where s.datid is not null and s.pid <> pg_backend_pid() "
        "and coalesce(s.backend_type, 'client backend') = 'client backend') as a "
        "where r.rolname = session_user and d.datname = current_database()",
        (),
        one(Connections),
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
        column,
    )


def check_client(interval_ms: int) -> Call[list[str]]:
    """Let the server look this often whether the client of a running statement is there, unless it does already."""
    return Call(
        "select set_config(name, %s::text, false) from pg_settings "
        "where name = 'client_connection_check_interval' and setting = '0'",
        (str(interval_ms),),
        column,
    )


def set_settings(settings: Mapping[str, str]) -> Call[list[str]]:
    """Give settings of the session values, by name."""
    return Call(
        "select set_config(s.name, s.setting, false) from unnest(%s::text[], %s::text[]) as s (name, setting)",
        (list(settings), list(settings.values())),
        column,
    )


def wait_for_locks(at_most_ms: int) -> Call[str]:
    """Let statements of this transaction fail when they wait longer for a lock."""
    return Call("select set_config('lock_timeout', %s::text, true)", (str(at_most_ms),), scalar)


def lead(backend_pid: int) -> Call[bool | None]:
    return Call("select sluice.lead(%s::integer)", (backend_pid,), scalar)


@method(EventLog)
def list_extra_maint() -> Call[list[ExtraMaintenance]]:
    """Return the functions that logs name in `queue_extra_maint`, in the order in which they are to be called.

    Source: `sluice.list_extra_maint`.
    """
    return Call(
        "select queue_name, function_name from sluice.list_extra_maint()",
        (),
        record(ExtraMaintenance),
    )


@method(EventLog)
def run_extra_maint(queue_name: str, function_name: str) -> Call[bool]:
    """Call a function that a log names in `queue_extra_maint`, with the log's name and this session's rights.

    Returns:
        Whether it was called; False when the log does not name it.

    Raises:
        SluiceError: What the function raises.

    Source: `sluice.run_extra_maint`.
    """
    return Call(
        "select sluice.run_extra_maint(%s::text, %s::text)", (queue_name, function_name), scalar
    )
