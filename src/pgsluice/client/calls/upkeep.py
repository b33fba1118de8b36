"""Checks and settings of a session before it starts work, leader election and extra maintenance, as calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pgsluice.client.calls.call import Call, column, one, record, scalar


class Server(NamedTuple):
    """Server and role of a session.

    Attributes:
        backend_pid: Process id of the server process; behind a pooler, it differs from the client's.
        is_standby: True if the server is a standby, which accepts no writes.
        is_read_only: True if transactions are read-only by default.
        role_name: Current role.
        database_name: Current database.
        isolation_level: Isolation level of the call's transaction: `read committed`, unless a pooler drops the settings
            of the session.
    """

    backend_pid: int
    is_standby: bool
    is_read_only: bool
    role_name: str
    database_name: str
    isolation_level: str


class ConnectionUse(NamedTuple):
    """Connection limits of a role and the connections in use, without that of the call.

    Attributes:
        role_name: Login role of the session.
        server_max: `max_connections` less the connections reserved for other roles.
        server_used: Client connections in use.
        role_max: The `CONNECTION LIMIT` of the role, or None.
        role_used: Connections of the role in use.
        database_max: The `CONNECTION LIMIT` of the database, or None.
        database_used: Connections to the database in use.
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
        """Number of connections that this role can still open."""
        return max(0, min(limit - used for _, limit, used in self.bounds()))

    def described(self) -> str:
        """Return the limits as text: `server 12 of 97, database 3 of 20`."""
        return ", ".join(f"{name} {used} of {limit}" for name, limit, used in self.bounds())

    def bounds(self) -> list[tuple[str, int, int]]:
        """Return each limit: its name, the maximum, and the connections in use."""
        bounds = [("server", self.server_max, self.server_used)]
        if self.role_max is not None:
            bounds.append(("role", self.role_max, self.role_used))
        if self.database_max is not None:
            bounds.append(("database", self.database_max, self.database_used))
        return bounds


class ExtraMaintenance(NamedTuple):
    """A maintenance function from a log's `queue_extra_maint`, called with the log's name."""

    log_name: str
    function_name: str


def server() -> Call[Server]:
    return Call(
        "select pg_backend_pid(), pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean, "
        "current_user::text, current_database()::text, current_setting('transaction_isolation')",
        (),
        one(Server),
    )


def connections_left() -> Call[ConnectionUse]:
    """Return the connection limits; sessions of other roles may hide their backend_type, and count as clients."""
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
        one(ConnectionUse),
    )


def forbidden(function_names: Sequence[str]) -> Call[list[str]]:
    """Return the functions, as `schema.name`, that exist but the session cannot execute."""
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
    """Set client_connection_check_interval unless it is already set."""
    return Call(
        "select set_config(name, %s::text, false) from pg_settings "
        "where name = 'client_connection_check_interval' and setting = '0'",
        (str(interval_ms),),
        column,
    )


def set_settings(settings: Mapping[str, str]) -> Call[list[str]]:
    """Set settings of the session."""
    return Call(
        "select set_config(s.name, s.setting, false) from unnest(%s::text[], %s::text[]) as s (name, setting)",
        (list(settings), list(settings.values())),
        column,
    )


def wait_for_locks(at_most_ms: int) -> Call[str]:
    """Set lock_timeout for this transaction."""
    return Call("select set_config('lock_timeout', %s::text, true)", (str(at_most_ms),), scalar)


def lead(role: str, candidate: int, lease_s: float) -> Call[bool]:
    return Call(
        "select sluice.lead(%s::text, %s::integer, make_interval(secs => %s::float8))",
        (role, candidate, lease_s),
        scalar,
    )


def resign(role: str, candidate: int) -> Call[bool]:
    return Call("select sluice.resign(%s::text, %s::integer)", (role, candidate), scalar)


def list_extra_maint() -> Call[list[ExtraMaintenance]]:
    """Return the functions in the `queue_extra_maint` of logs, in the order to call them."""
    return Call(
        "select log_name, function_name from sluice.list_extra_maint(null)",
        (),
        record(ExtraMaintenance),
    )


def run_extra_maint(extra: ExtraMaintenance) -> Call[bool]:
    """Call it with this session's privileges; False when the log's `queue_extra_maint` does not contain it any more."""
    return Call("select sluice.run_extra_maint(%s::text, %s::text)", tuple(extra), scalar)
