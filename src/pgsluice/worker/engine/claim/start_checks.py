"""Preflight checks of a worker, each with a one-line error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice import schema
from pgsluice.client import EventLog, WorkQueue
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import group_types, share_groups, upkeep
from pgsluice.client.calls.upkeep import ConnectionUse, Server
from pgsluice.connection import Target, connect
from pgsluice.errors import (
    TRANSIENT,
    ConfigurationError,
    GroupNotFoundError,
    PrivilegeError,
    ReadOnlyError,
    SluiceError,
)
from pgsluice.worker.engine.connections.pooler import require_transactions
from pgsluice.worker.handlers.handler import GroupRoute, HandlerSpec, QueueRoute, Route

_log = logging.getLogger(__name__)
# SQL functions called per kind of route; the role needs execute privilege on those that exist.
_OF_QUEUES = (
    "pgmq.read",
    "sluice.archive",
    "sluice.begin_attempts",
    "sluice.claim_messages",
    "sluice.queue_identity",
    "sluice.delete",
    "sluice.extend",
    "sluice.fail",
    "sluice.release",
    "sluice.try_lock_messages",
)
_OF_GROUPS = ("sluice.acknowledge", "sluice.claim", "sluice.release", "sluice.renew")
_OF_CONSUMERS = ("pgq.event_retry", "pgq.finish_batch", "pgq.next_batch", "sluice.batch_query")
_OF_MAINTENANCE = (
    "pgq.maint_retry_events",
    "sluice.lead",
    "sluice.maintain",
    "sluice.rotate",
    "sluice.tick",
)
_POOLED = "through a pooler: workers poll, as notifications may not arrive"
# Connection options if a pooler is possible: prepared statements belong to one session.
UNKNOWN: dict[str, Any] = {"prepare_threshold": None}


@dataclass(frozen=True, slots=True)
class StartFinding:
    """Result of one check.

    Attributes:
        name: The item checked: `server`, `schema`, `rights`, …
        detail: The state found, or the problem and its remedy.
        error: An error that prevents the worker from starting, or None.
        is_short: True if the worker starts, but the server is short of a resource.
    """

    name: str
    detail: str
    error: SluiceError | None = None
    is_short: bool = False


def require(target: Target, specs: Iterable[HandlerSpec], connections: int = 0) -> dict[str, Any]:
    """Run all checks, and log shortages.

    Args:
        target: The server to connect to.
        specs: The handlers.
        connections: Maximum connections of the process.

    Returns:
        Options for connections to this server, as for `psycopg.connect`.

    Raises:
        SluiceError: The first error that prevents the worker from starting.
    """
    findings = run_checks(target, specs, connections)
    for finding in findings:
        if finding.error is not None:
            raise finding.error
        if finding.is_short:
            _log.warning('insufficient %s detail="%s"', finding.name, finding.detail)
    is_pooled = StartFinding("connection", _POOLED) in findings
    return UNKNOWN if is_pooled else {}


def run_checks(
    target: Target,
    specs: Iterable[HandlerSpec],
    connections: int = 0,
    *,
    with_groups: bool = False,
) -> list[StartFinding]:
    """Check the server, schemas, privileges, connection, queues and logs without changing anything.

    Args:
        target: The server to connect to.
        specs: The handlers.
        connections: Maximum connections of the process.
        with_groups: Also describe the share groups and their event types, which does not prevent a start.

    Returns:
        The findings up to the first error.

    Raises:
        ConnectionFailedError: The server is unreachable.
    """
    specs = list(specs)
    with connect(target, autocommit=True, prepare_threshold=None) as connection:
        found = []
        for finding in _each(connection, specs, connections):
            found.append(finding)
            if finding.error is not None:
                return found
        if with_groups:
            found += _groups(connection, specs)
        return found


def _each(
    connection: psycopg.Connection[Any], specs: list[HandlerSpec], connections: int
) -> Iterator[StartFinding]:
    try:
        server = require_transactions(connection)
    except ConfigurationError as error:
        yield StartFinding("connection", str(error), error)
        return
    runner = Runner(connection)
    version = connection.info.server_version
    yield _checked(
        "server",
        f"PostgreSQL {version // 10_000}.{version % 10_000}, database {server.database_name}, role {server.role_name}",
        lambda: _require_writable(server),
    )
    yield _checked("schema", "matches this release", lambda: schema.require(connection))
    needed = sorted({name for spec in specs for name in _functions_for(spec.route)})
    yield _checked(
        "rights", "sufficient", lambda: _require_rights(runner, needed, server.role_name)
    )
    is_pooled = connection.info.backend_pid != server.backend_pid
    yield StartFinding("connection", _POOLED if is_pooled else "direct")
    if connections and not is_pooled:
        yield _connection_headroom(runner.run(upkeep.connections_left()), connections)
    yield StartFinding("maintenance", _maintenance(runner, server.role_name))
    yield from _routes(connection, specs)


def _checked(name: str, detail: str, check: Callable[[], None]) -> StartFinding:
    try:
        check()
    except ReadOnlyError as error:  # a TRANSIENT error, but a finding here
        return StartFinding(name, str(error), error)
    except TRANSIENT:
        raise
    except SluiceError as error:
        return StartFinding(name, str(error), error)
    return StartFinding(name, detail)


def _require_writable(server: Server) -> None:
    if server.is_standby:
        raise ReadOnlyError(
            "the server is a standby, which is read-only; connect to the primary, or list all servers in the DSN "
            "and add target_session_attrs=read-write"
        )
    if server.is_read_only:
        raise ConfigurationError(
            f"transactions of role {server.role_name} in database {server.database_name} are read-only; set "
            "default_transaction_read_only to off for the role or database"
        )


def _require_rights(runner: Runner, function_names: list[str], role_name: str) -> None:
    forbidden = runner.run(upkeep.forbidden(function_names))
    if forbidden:
        raise PrivilegeError(
            f"role {role_name} may not execute {', '.join(forbidden)}; ask an administrator to grant it sluice_reader"
        )


def _connection_headroom(left: ConnectionUse, needed: int) -> StartFinding:
    """Compare the connection limit of the process with the connections that the server has left."""
    detail = f"up to {needed} in this process; {left.left} left for role {left.role_name} (in use: {left.described()})"
    if needed <= left.left:
        return StartFinding("connections", detail)
    hint = "; lower --max-connections, or raise the server's limit; else handlers and claims wait for connections"
    return StartFinding("connections", detail + hint, is_short=True)


def _maintenance(runner: Runner, role_name: str) -> str:
    if runner.run(upkeep.forbidden(_OF_MAINTENANCE)):
        return f"role {role_name} may not run maintenance: run `pgsluice maintain` as a member of sluice_admin"
    return f"role {role_name} may run maintenance"


def _functions_for(route: Route) -> tuple[str, ...]:
    if isinstance(route, QueueRoute):
        return _OF_QUEUES
    return _OF_GROUPS if isinstance(route, GroupRoute) else _OF_CONSUMERS


def _routes(
    connection: psycopg.Connection[Any], specs: list[HandlerSpec]
) -> Iterator[StartFinding]:
    """Check that the queues and logs of the handlers exist."""
    routes = [spec.route for spec in specs]
    queues = {route.queue_name.lower() for route in routes if isinstance(route, QueueRoute)}
    logs = {route.log_name for route in routes if not isinstance(route, QueueRoute)}
    existing = {queue.queue_name.lower() for queue in WorkQueue(connection).list_queues()}
    for name in sorted(queues):
        yield _existing(
            f"queue {name}", name in existing, f"create it with `pgsluice queue create {name}`"
        )
    known = {log.log_name for log in EventLog(connection).get_queue_info()} if logs else set()
    for name in sorted(logs):
        yield _existing(
            f"log {name}", name in known, f"create it with `pgsluice log create {name}`"
        )


def _groups(
    connection: psycopg.Connection[Any], specs: Iterable[HandlerSpec]
) -> list[StartFinding]:
    routes = [spec.route for spec in specs]
    names = {(each.log_name, each.group_name) for each in routes if isinstance(each, GroupRoute)}
    return [_group(Runner(connection), *each) for each in sorted(names)]


def _group(runner: Runner, log_name: str, group_name: str) -> StartFinding:
    """Describe a share group, and its event types that wait for a handler or have none."""
    name = f"group {group_name} of log {log_name}"
    try:
        info = runner.run(share_groups.group_info(log_name, group_name))
        types = runner.run(group_types.list_types(log_name, group_name))
    except GroupNotFoundError:
        return StartFinding(name, "is created at the first start")
    except PrivilegeError:  # a role that may only claim needs neither
        return StartFinding(
            name, "not checked: its event types need sluice_reader or sluice_monitor"
        )
    parts = [f"exists; unhandled = {info.unhandled}"]
    for each in types:
        if each.waiting or each.waiting_keys:
            parts.append(
                f"type {each.ev_type} waits for {each.handler or 'a handler'}, live workers: {each.workers or 0}"
            )
        if each.accepted or each.dead_lettered:
            parts.append(
                f"type {each.ev_type} has no handler, accepted: {each.accepted}, dead-lettered: {each.dead_lettered}"
            )
    return StartFinding(name, "; ".join(parts))


def _existing(name: str, is_found: bool, hint: str) -> StartFinding:
    if is_found:
        return StartFinding(name, "exists")
    error = ConfigurationError(f"{name} does not exist; {hint}")
    return StartFinding(name, str(error), error)
