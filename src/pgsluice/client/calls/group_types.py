"""Event types of share groups: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgsluice.client.calls.arguments import several
from pgsluice.client.calls.call import Call, nothing, record, scalar
from pgsluice.client.calls.clients import ShareGroup, method
from pgsluice.client.group_records import GroupType


@method(ShareGroup)
def list_types(log_name: str, group_name: str) -> Call[list[GroupType]]:
    """Return the event types that handlers are declared for, and those without a handler, by type.

    Source: `sluice.list_types`.
    """
    return Call(
        "select * from sluice.list_types(%s::text, %s::text)",
        (log_name, group_name),
        record(GroupType),
    )


@method(ShareGroup)
def forget_types(log_name: str, group_name: str, types: Sequence[str | None]) -> Call[int]:
    """Remove the declarations of event types whose handlers will not return.

    Their waiting events are then treated by the option `unhandled`. A running worker that declares a type
    declares it again within an hour.

    Args:
        types: The types; None stands for the declaration of all other types.

    Returns:
        The number of declarations removed.

    Source: `sluice.forget_types`.
    """
    return Call(
        "select sluice.forget_types(%s::text, %s::text, %s::text[])",
        (log_name, group_name, several(types, "types", "types")),
        scalar,
    )


def declare_types(
    log_name: str, group_name: str, app: str, declared: Sequence[tuple[str, str | None]]
) -> Call[str]:
    """Declare the event types of an app's handlers, each as handler and type; return the group's option `unhandled`."""
    return Call(
        "select sluice.declare_types(%s::text, %s::text, %s::text, %s::text[], %s::text[])",
        (
            log_name,
            group_name,
            app,
            [handler for handler, _ in declared],
            [ev_type for _, ev_type in declared],
        ),
        scalar,
    )


def note_unhandled(
    log_name: str, group_name: str, outcome: str, events: Mapping[str | None, int]
) -> Call[None]:
    """Count events without a handler, by type."""
    return Call(
        "select sluice.note_unhandled(%s::text, %s::text, %s::text, %s::text[], %s::bigint[])",
        (log_name, group_name, outcome, list(events), list(events.values())),
        nothing,
    )
