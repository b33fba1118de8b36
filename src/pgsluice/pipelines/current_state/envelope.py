"""Parse change events of `sluice.capture`, `pgq.jsontriga` and `pgq.logutriga`.

Values are as JSON has them, except that numbers with a fraction or an exponent, arrays and objects stay text, so that
nothing is lost before the type of the column is known. Values of columns of JSON stay JSON text: the string `"1"` is
not the number `1`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from pgsluice.errors import ChangeError
from pgsluice.lake.names import TableName, quoted

Value = int | bool | str | None
Row = dict[str, Value]

_OURS = frozenset("crudt")
_OPERATIONS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "TRUNCATE": "t"}
_LETTERS = {"I": "c", "U": "u", "D": "d"}
_STATEMENTS = frozenset("IUD")
_HEAD = '{"op":'  # of pgq.jsontriga
_SPACES = " \t\n\r"
_SPACE = re.compile(f"[{_SPACES}]*")
_NESTED = (dict, list)
_NULL = "null"
_DECODER = json.JSONDecoder(parse_float=str)
# Strings are matched whole, so that their brackets do not count.
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]+")


# Not frozen, as that doubles the time of creation, once per event.
@dataclass(slots=True)
class Change:
    """A change of one row, or of a whole table.

    Attributes:
        table: The table.
        key: Columns of its key; empty if it has none.
        seq: Event id. Of two changes of one row the later has the higher, see `collapse`.
        at_us: Time of the event, microseconds since 1970 in UTC.
        op: `c` insert, `u` update, `d` delete, `r` snapshot row, `t` truncate.
        before: The row, or at least its key, before the change; None if absent or not recorded.
        after: The row after it; None for `d` and `t`.
        txid: Transaction id, shared by the rows of one snapshot; None if not recorded.
    """

    table: TableName
    key: tuple[str, ...]
    seq: int
    at_us: int
    op: str
    before: Row | None = None
    after: Row | None = None
    txid: int | None = None


def table_of(ev_type: str | None, ev_extra1: str | None) -> TableName | str | None:
    """Return the table that an event may be a change of.

    Args:
        ev_type, ev_extra1: As the trigger wrote them.

    Returns:
        Its name; `schema.table` unquoted for the events of `pgq.logutriga` and `pgq.sqltriga`, which do not tell them
        apart; None if the event is not a change.
    """
    if not ev_type or not ev_extra1:
        return None
    if ev_type in _OURS:
        return TableName.of(ev_extra1)
    if ev_type.startswith(_HEAD):
        try:
            parts = json.loads(ev_type)["table"]
            schema, table = map(str, parts)
        except (ValueError, KeyError, TypeError):
            return ev_extra1 if "." in ev_extra1 else None  # read_change names the error
        return TableName(schema, table)
    is_joined = ev_type == "R" or ev_type in _STATEMENTS or _is_form(ev_type)
    return ev_extra1 if is_joined and "." in ev_extra1 else None


def read_change(
    table: TableName,
    ev_id: int,
    at_us: int,
    ev_type: str | None,
    ev_data: str | None,
    ev_extra1: str | None = None,
    ev_extra2: str | None = None,
    documents: frozenset[str] = frozenset(),
) -> Change | None:
    """Parse one event.

    Args:
        table: Its table by `table_of`.
        ev_id: Event id.
        at_us: Time of the event, microseconds since 1970 in UTC.
        ev_type, ev_data, ev_extra1, ev_extra2: As the trigger wrote them.
        documents: Columns of JSON.

    Returns:
        None if it is not a change of the table: a log may hold other events too.

    Raises:
        ChangeError: It is marked as a change but cannot be parsed, or is of `pgq.sqltriga`, which writes parts of
            statements instead of rows.
    """
    if not ev_type or ev_data is None:
        return None
    if ev_type in _OURS:
        return _of_capture(table, ev_id, at_us, ev_type, ev_data, documents)
    if not ev_extra1:
        return None
    try:
        if ev_type.startswith(_HEAD):
            change = _of_json_trigger(table, ev_id, at_us, ev_type, ev_data, ev_extra2)
            return _with_documents(change, documents)
        if ev_type == "R" and not ev_data:
            return Change(table, (), ev_id, at_us, "t")
        if _is_form(ev_type):
            change = _of_form_trigger(table, ev_id, at_us, ev_type, ev_data, ev_extra2)
            return _with_documents(change, documents)
    except (ValueError, KeyError, TypeError) as error:
        raise ChangeError(
            f"event {ev_id} is marked as a change of {table}, but cannot be parsed: {error}; a trigger with its "
            "own ev_type= or ev_data= records no rows: leave its table out"
        ) from error
    if ev_type in _STATEMENTS and "." in ev_extra1:
        raise ChangeError(
            f"event {ev_id} is a statement of pgq.sqltriga for {table} instead of a row; capture the table with "
            "sluice.capture, pgq.jsontriga or pgq.logutriga, or exclude it"
        )
    return None


def _is_form(ev_type: str) -> bool:
    """True for the type of an event of `pgq.logutriga`: a letter, a colon and the columns of the key."""
    return ev_type[1:2] == ":" and ev_type[0] in _LETTERS


def _of_capture(
    table: TableName,
    ev_id: int,
    at_us: int,
    ev_type: str,
    ev_data: str,
    documents: frozenset[str],
) -> Change | None:
    try:
        envelope = _decoded(ev_data, 2)
        source = envelope["source"]
        is_of_table = source["schema"] == table.schema and source["table"] == table.table
        key = tuple(source["key"] or ())
        before, after = envelope["before"], envelope["after"]
        unchanged = list(envelope.get("unchanged") or ())
        same = envelope["op"] == ev_type and is_of_table
    except (ValueError, KeyError, TypeError):
        return None  # an application's event whose type is one of these letters
    if not same:
        return None
    before = _with_key(_flat(before, ev_data, "before", documents), key, documents)
    after = _with_key(_flat(after, ev_data, "after", documents), key, documents)
    if unchanged and before is not None and after is not None:
        before |= {name: after[name] for name in unchanged}
    if left_out := envelope.get("left_out"):
        _require_whole(
            table, ev_id, {"after": after} if key else {"before": before, "after": after}, left_out
        )
    return Change(table, key, ev_id, at_us, ev_type, before, after, source.get("txId"))


def _require_whole(
    table: TableName, ev_id: int, images: dict[str, Row | None], left_out: dict[str, list[str]]
) -> None:
    """Require the values of the rows that a lake table needs: `sluice.capture` leaves those out that are too large."""
    missing = {
        name
        for image, row in images.items()
        if row is not None
        for name in left_out.get(image, ())
        if row.get(name) is None
    }
    if missing:
        raise ChangeError(
            f"event {ev_id} of {table} has no value of {', '.join(sorted(map(quoted, missing)))}: the row is larger "
            "than row_bytes_max of its capture; exclude such columns: call sluice.capture again with the option "
            "ignore, and rebuild the table"
        )


def _with_key(row: Row | None, key: Collection[str], documents: frozenset[str]) -> Row | None:
    """Return a row with the text of a JSON null in its key, which cannot be null."""
    if row is None or not documents:
        return row
    nulls = [name for name in key if name in documents and row.get(name, "") is None]
    return row | dict.fromkeys(nulls, _NULL) if nulls else row


def _with_documents(change: Change, documents: frozenset[str]) -> Change:
    """Return a change of PgQ's triggers, which write JSON as strings, with the JSON text that other events have."""
    for row in (change.before, change.after):
        if row is None:
            continue
        for name in documents & row.keys():
            text = row[name]
            if isinstance(text, str):
                text = text.strip(_SPACES)
                row[name] = None if text == _NULL and name not in change.key else text
    return change


def _of_json_trigger(
    table: TableName, ev_id: int, at_us: int, ev_type: str, ev_data: str, old: str | None
) -> Change:
    head = json.loads(ev_type)
    if head["table"] != [table.schema, table.table]:
        raise ValueError("its type names another table")
    op = _OPERATIONS[head["op"]]
    if op == "t":
        return Change(table, (), ev_id, at_us, op)
    key = tuple(head["pkey"])
    row = _flat(_object(ev_data), ev_data)
    if op == "d":
        return Change(table, key, ev_id, at_us, op, before=row)
    before = _flat(_object(old), old) if old else None
    return Change(table, key, ev_id, at_us, op, before, row)


def _of_form_trigger(
    table: TableName, ev_id: int, at_us: int, ev_type: str, ev_data: str, old: str | None
) -> Change:
    letter, _, names = ev_type.partition(":")
    op = _LETTERS[letter]
    key = tuple(names.split(",")) if names else ()
    if op == "d":
        return Change(table, key, ev_id, at_us, op, before=_form(ev_data))
    return Change(table, key, ev_id, at_us, op, _form(old) if old else None, _form(ev_data))


def _form(text: str) -> Row:
    row: Row = {}
    for field in text.split("&"):
        name, equals_sign, value = field.partition("=")
        # Null is a name without an equals sign; an empty string has one.
        row[unquote_plus(name, errors="strict")] = (
            unquote_plus(value, errors="strict") if equals_sign else None
        )
    return row


def _object(text: str) -> dict[str, Any]:
    document = _decoded(text, 1)
    if not isinstance(document, dict):
        raise TypeError("its data is not a JSON object")
    return document


def _decoded(text: str, levels: int) -> Any:
    """Decode JSON. A value that Python cannot decode stays text: deeply nested, or an integer of too many digits.

    Args:
        text: The JSON text.
        levels: Levels of objects whose members are decoded one by one, if the whole cannot be decoded.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):
        if levels and text.startswith("{"):
            members = _members(text, 0)
            return {name: _decoded(text[start:end], levels - 1) for name, start, end in members}
        if not levels and text.startswith(("{", "[")) and _end_of_nested(text, 0) == len(text):
            return text
        if _INTEGER.fullmatch(text):
            return text
        raise ValueError("it is nested too deeply") from None


def _flat(
    row: dict[str, Any] | None,
    document: str,
    member: str | None = None,
    documents: frozenset[str] = frozenset(),
) -> Row | None:
    """Return the row with arrays, objects and the values of columns of JSON as their text in the document."""
    if row is None:
        return None
    nested = [
        name
        for name, value in row.items()
        if value.__class__ in _NESTED or (name in documents and value is not None)
    ]
    if not nested:
        return row
    begin = 0
    if member is not None:
        begin = next(begin for name, begin, _ in _members(document, 0) if name == member)
    texts = {
        name: document[start:end]
        for name, start, end in _members(document, begin)
        if name in nested
    }
    return {name: texts.get(name, value) for name, value in row.items()}


def _members(text: str, begin: int) -> Iterator[tuple[str, int, int]]:
    """Yield the members of the JSON object at this offset: name, start and end of the value.

    Raises:
        ValueError: It is not JSON.
    """
    at = _after_space(text, _after_space(text, begin) + 1)
    while text[at : at + 1] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _after_space(text, _after_space(text, at) + 1)
        end = _end(text, start)
        yield name, start, end
        at = _after_space(text, end)
        if text[at : at + 1] == ",":
            at = _after_space(text, at + 1)
        elif text[at : at + 1] != "}":
            raise ValueError(f"expecting ',' or '}}' at character {at}")


def _end(text: str, start: int) -> int:
    """Return the end of the JSON value at this offset."""
    try:
        return _DECODER.raw_decode(text, start)[1]
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):
        integer = _INTEGER.match(text, start)
        return integer.end() if integer else _end_of_nested(text, start)


def _end_of_nested(text: str, start: int) -> int:
    depth = 0
    for found in _BRACKETS.finditer(text, start):
        if found[0] in "[{":
            depth += 1
        elif found[0] in "]}":
            depth -= 1
        if depth == 0:
            return found.end()
    raise ValueError(f"nothing ends the value at character {start}")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
