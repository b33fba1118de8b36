"""Pages of the Python reference, by noun: signatures and docstrings of the public classes and functions as Markdown."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pgsluice
from pgsluice import testing

_LINE_MAX = 88
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$")
_ITEM = re.compile(r"^(\*{0,2}[\w.]+): (.*)$", re.DOTALL)
_CODE = re.compile(r"(`[^`]*`)")


class Page(NamedTuple):
    """A page.

    Attributes:
        title: Its title.
        about: Its first paragraph, with links to the other references of the noun.
        names: Classes and functions, in order.
        package: Where they are imported from.
    """

    title: str
    about: str
    names: tuple[str, ...]
    package: Any = pgsluice


_ASYNC = "Each class `X` has an asynchronous form `AsyncX` with the same methods, awaited."
PAGES = {
    "handlers": Page(
        "Apps, handlers and outcomes",
        "Declare handlers, send to them, and settle messages. Guide: [Workers](../../guides/workers.md). "
        "`Context` is for `async def` handlers and `SyncContext` for `def`.",
        (
            *(
                "App",
                "HandlerOptions",
                "Handler",
                "SendOptions",
                "SendManyOptions",
                "Context",
                "SyncContext",
            ),
            *(
                "Outcome",
                "Done",
                "Retry",
                "Release",
                "Reject",
                "RetryPolicy",
                "Batch",
                "Unique",
                "Mode",
                "Execution",
            ),
        ),
    ),
    "testing": Page(
        "Testing",
        "Import these from `pgsluice.testing`. Guide: [Test handlers and senders](../../guides/testing.md). "
        "Functions that connect have asynchronous forms: `run_handler_async`, `run_batch_async`, `drain_async`, "
        "`sent_async`, `assert_sent_async`, `advance_time_async`.",
        (
            *(
                "run_handler",
                "MessageOptions",
                "run_batch",
                "drain",
                "sent",
                "SentMessage",
                "assert_sent",
            ),
            *("SentFilter", "advance_time"),
        ),
        testing,
    ),
    "queues": Page(
        "Queues",
        f"{_ASYNC} SQL: [`pgmq`](../pgmq.md). Commands: [`pgsluice queue`](../cli/queue.md).",
        (
            *(
                "WorkQueue",
                "TableQueue",
                "Message",
                "StoredMessage",
                "FoundMessages",
                "UnloadableJson",
                "MessageResult",
            ),
            *(
                "QueueOptions",
                "QueueSettings",
                "QueueMetrics",
                "QueueInfo",
                "QueueState",
                "QueueExtent",
            ),
            *(
                "ClaimOutcome",
                "BegunAttempt",
                "FailedMessage",
                "MessageAttempts",
                "FailingMessages",
                "BlockedKey",
                "BlockedMessages",
                "LimitUsage",
            ),
            *(
                "TopicBinding",
                "NotifyThrottle",
                "RoutingMatch",
                "Partition",
                "QueueStream",
                "Inbox",
            ),
        ),
    ),
    "dead-letters": Page(
        "Dead letters and archives",
        f"{_ASYNC} SQL: [`sluice`](../sluice.md). Commands: "
        "[`pgsluice dead-letters`](../cli/dead-letters.md).",
        (
            *(
                "DeadLetters",
                "DeadLetter",
                "DeadLetterFilter",
                "DeadLetterGroup",
                "FoundDeadLetters",
                "Redriven",
            ),
            *("Archive", "Export", "Replay", "ReplayStep", "Replayed"),
        ),
    ),
    "logs": Page(
        "Event logs",
        f"{_ASYNC} SQL: [`pgq`](../pgq.md). Commands: [`pgsluice log`](../cli/log.md).",
        (
            *(
                "EventLog",
                "EventConsumer",
                "EventBatch",
                "ConsumedBatch",
                "Event",
                "NewEvent",
                "BrowsedEvent",
            ),
            *(
                "DelayedEvent",
                "EventPosition",
                "FailedEvent",
                "OpenBatch",
                "BatchInfo",
                "ConsumerState",
            ),
            *(
                "ConsumerInfo",
                "LogInfo",
                "LogState",
                "LogOptions",
                "LogSettings",
                "LogTick",
                "Segment",
            ),
            *("RotationStep", "RestoredLog", "Capture", "CaptureProblem"),
        ),
    ),
    "share-groups": Page(
        "Share groups",
        f"{_ASYNC} Guide: [Share groups](../../guides/share-groups.md). Commands: "
        "[`pgsluice group`](../cli/group.md).",
        ("ShareGroup", "ClaimedEvent", "GroupOptions", "GroupInfo", "OpenClaim"),
    ),
    "schedules": Page(
        "Schedules",
        f"{_ASYNC} Handlers are scheduled with [`App.schedule`](handlers.md#schedule). Commands: "
        "[`pgsluice schedule`](../cli/schedule.md).",
        ("Schedules", "ScheduleOptions", "Schedule", "FiredSlot", "Scheduler", "ScheduleSpec"),
    ),
    "processes": Page(
        "Workers and background processes",
        "Run handlers and maintenance within a program of yours. Commands: "
        "[`pgsluice worker`](../cli/worker.md), [`pgsluice maintain`](../cli/maintain.md).",
        (
            *(
                "Worker",
                "WorkerOptions",
                "Maintenance",
                "Ticker",
                "Notifier",
                "Listener",
                "AsyncListener",
            ),
            *("ListenerState", "Subscription"),
        ),
    ),
    "operations": Page(
        "Operations",
        f"{_ASYNC} Figures and actions for operators. Guide: [Figures](../../guides/figures.md).",
        (
            *(
                "Operations",
                "Sample",
                "NewestSample",
                "WorkerProcess",
                "HandlerTimes",
                "HandlerPolicy",
            ),
            *(
                "OperatorAction",
                "ExplainedFact",
                "MaintenanceFailure",
                "MaintenanceStep",
                "PurgedMessages",
            ),
        ),
    ),
    "connections": Page(
        "Connections and errors",
        "Connect by the rule in [Install](../../install.md). All errors are subclasses of `SluiceError`. `Shards` and "
        "`ShardPool` are for several servers that share keys.",
        (
            *("connect", "resolve", "Target", "Settings", "Shards", "ShardPool"),
            *sorted(
                (name for name in dir(pgsluice) if name.endswith("Error")),
                key=lambda n: n != "SluiceError",
            ),
        ),
    ),
}
# Built by callers: their signatures are shown.
CONSTRUCTED = {
    "RetryPolicy",
    "Batch",
    "Done",
    "Retry",
    "Release",
    "Reject",
    "NewEvent",
    "FailedMessage",
    "FailedEvent",
    "ShardPool",
}
_CONTEXT = (
    *(
        "attempt",
        "headers",
        "key",
        "message_id",
        "sent_at",
        "source",
        "handler",
        "deadline_s",
        "lost",
        "is_lost",
        "log",
    ),
    *("transaction", "once", "heartbeat"),
)
# Classes that the engine uses too: their members for handlers, in order.
MEMBERS = {"Context": _CONTEXT, "SyncContext": _CONTEXT}


def python_pages(note: str) -> dict[str, str]:
    """Return the texts of the pages by name; `index` lists the others."""
    pages = {name: _page(page, note) for name, page in PAGES.items()}
    lines = [
        note,
        "# Python\n\nThe public classes and functions, by noun. ",
        _ASYNC,
        "\n\n| page | names |\n|---|---|\n",
    ]
    for name, page in PAGES.items():
        shown = [each for each in page.names if not each.endswith("Error") or each == "SluiceError"]
        links = ", ".join(f"[`{each}`](python/{name}.md#{each.lower()})" for each in shown)
        lines.append(f"| [{page.title}](python/{name}.md) | {links} |\n")
    lines.append(hidden(f"python/{name}" for name in PAGES))
    return pages | {"index": "".join(lines)}


def hidden(pages: Iterable[str]) -> str:
    """Return a table of contents that only the menu shows."""
    return "\n```{toctree}\n:hidden:\n\n" + "".join(f"{page}\n" for page in pages) + "```\n"


def _page(page: Page, note: str) -> str:
    lines = [note, f"# {page.title}\n\n{page.about}\n"]
    for name in page.names:
        found = getattr(page.package, name)
        lines.append(f"\n## `{name}`\n\n")
        if inspect.isclass(found):
            lines += _class(name, found)
        else:
            lines.append(_signature(name, found) + _markdown(inspect.getdoc(found) or ""))
    return "".join(lines)


def _class(name: str, kind: type) -> Iterator[str]:
    members = list(_members(name, kind))
    constructor = next((function for member, function in members if member == "__init__"), None)
    if constructor is not None:
        yield _signature(name, constructor)
    elif name in CONSTRUCTED:
        yield _signature(name, kind)
    yield _markdown(inspect.getdoc(kind) or "", _types(kind))
    if constructor is not None and (text := inspect.getdoc(constructor)):
        # Its first line says that it constructs.
        yield "\n" + _markdown(text.partition("\n\n")[2] if "\n\n" in text else "")
    for member, found in members:
        if member == "__init__":
            continue
        yield f"\n### `{member}`\n\n"
        if isinstance(found, property):
            kind_of = inspect.get_annotations(found.fget or member.__class__).get("return", "")
            yield f"```python\n{member}: {_text(kind_of)}\n```\n\n" + _markdown(
                inspect.getdoc(found) or ""
            )
        else:
            yield _signature(member, found) + _markdown(inspect.getdoc(found) or "")


def _members(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented members in the order of their definition, inherited ones last."""
    names = MEMBERS.get(name) or dict.fromkeys(each for base in kind.__mro__ for each in vars(base))
    for member in names:
        found = inspect.getattr_static(kind, member)
        document = inspect.getdoc(found)
        if not (inspect.isfunction(found) or (isinstance(found, property) and name in MEMBERS)):
            continue
        if member == "__init__":
            if document and "Args:" in document:
                yield member, found
        elif document and not member.startswith("_"):
            yield member, found


class _Raw:
    """An annotation that is shown as it is written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    return getattr(annotation, "__forward_arg__", None) or inspect.formatannotation(annotation)


def _types(kind: type) -> dict[str, str]:
    """Return the types of the fields of a record or of options."""
    if not (
        dataclasses.is_dataclass(kind) or hasattr(kind, "__total__") or hasattr(kind, "_fields")
    ):
        return {}
    return {
        name: _text(annotation)
        for base in reversed(kind.__mro__)
        for name, annotation in inspect.get_annotations(base).items()
    }


def _signature(name: str, found: Callable[..., Any]) -> str:
    signature = inspect.signature(found)
    parameters = [
        each.replace(
            annotation=each.annotation
            if each.annotation is each.empty
            else _Raw(_text(each.annotation))
        )
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    returns = signature.return_annotation
    is_class = inspect.isclass(found) or found.__name__ == "__init__"
    signature = signature.replace(
        parameters=parameters,
        return_annotation=signature.empty
        if is_class or returns is signature.empty
        else _Raw(_text(returns)),
    )
    prefix = "await " if inspect.iscoroutinefunction(found) else ""
    line = f"{prefix}{name}{signature}"
    if len(line) > _LINE_MAX:
        shown = str(signature.replace(return_annotation=signature.empty))[1:-1]
        end = (
            ""
            if signature.return_annotation is signature.empty
            else f" -> {signature.return_annotation!r}"
        )
        line = f"{prefix}{name}(\n    " + ",\n    ".join(_split(shown)) + f",\n){end}"
    return f"```python\n{line}\n```\n\n"


def _split(parameters: str) -> Iterator[str]:
    """Yield the parameters of a text, split at commas outside of brackets and quotes."""
    depth, start, quote = 0, 0, ""
    for position, letter in enumerate(parameters):
        if quote or letter in "'\"":
            quote = "" if letter == quote else quote or letter
        elif letter in "[({":
            depth += 1
        elif letter in "])}":
            depth -= 1
        elif letter == "," and depth == 0:
            yield parameters[start:position].strip()
            start = position + 1
    yield parameters[start:].strip()


def _markdown(document: str, types: dict[str, str] | None = None) -> str:
    """Return a docstring as Markdown: its sections as lists, indented lines as code."""
    lines: list[str] = []
    for block in re.split(r"\n(?=(?:Args|Attributes|Returns|Yields|Raises):\n)|\n\n", document):
        head, _, body = block.partition("\n")
        if _SECTION.match(head):
            title = head.removesuffix(":").replace("Args", "Arguments")
            items = _items(textwrap.dedent(body))
            lines.append(
                f"**{title}**\n\n" + "".join(_item(item, types or {}) for item in items) + "\n"
            )
        elif block.startswith("    "):
            lines.append(f"```python\n{textwrap.dedent(block).rstrip()}\n```\n\n")
        elif block.strip():
            lines.append(_prose(block) + "\n\n")
    return "".join(lines).rstrip("\n") + "\n"


def _items(body: str) -> list[str]:
    """Return the entries of a section, each on one line."""
    return [" ".join(item.split()) for item in re.split(r"\n(?=\S)", body) if item.strip()]


def _item(item: str, types: dict[str, str]) -> str:
    match = _ITEM.match(item)
    if match is None:
        return f"- {_prose(item)}\n"
    kind = f" (`{types[match[1]]}`)" if match[1] in types else ""
    return f"- `{match[1]}`{kind}: {_prose(match[2])}\n"


def _prose(text: str) -> str:
    """Escape what Markdown would not show, outside of code."""
    parts = _CODE.split(text)
    parts[::2] = [re.sub(r"([*<\[\]])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
