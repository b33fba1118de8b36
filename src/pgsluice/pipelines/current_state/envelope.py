"""Events that say how a row changed: those of `sluice.capture`, `pgq.jsontriga` and `pgq.logutriga`.

A value is what JSON has for it, except that a number with a fraction or an exponent stays text, and so does an
array or an
object: nothing may be lost before the type of its column is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from pgsluice.errors import SluiceError

Value = int | bool | str | None
Row = dict[str, Value]

_OURS = frozenset("crudt")
_OPERATIONS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "TRUNCATE": "t"}
_LETTERS = {"I": "c", "U": "u", "D": "d"}
_STATEMENTS = frozenset("IUD")
_SPACE = re.compile(r"[ \t\n\r]*")
_NESTED = (dict, list)
_DECODER = json.JSONDecoder(parse_float=str)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one row, or to all of a table.

    Attributes:
        table: `schema.table`.
        key: The columns of its key; empty when it has none.
        seq: The event's id. Of two changes of one row the later one has the higher, see `collapse`.
        at_us: The event's time, microseconds since 1970 in UTC.
        op: `c` insert, `u` update, `d` delete, `r` a row as a snapshot found it, `t` truncate.
        before: The row, or at least its key, before the change; None when it is not told or there was none.
        after: The row after it; None for `d` and `t`.
        txid: The transaction's id, which the rows of one snapshot share; None when the event does not say.
    """

    table: str
    key: tuple[str, ...]
    seq: int
    at_us: int
    op: str
    before: Row | None = None
    after: Row | None = None
    txid: int | None = None


def read_change(
    ev_id: int,
    at_us: int,
    ev_type: str | None,
    ev_data: str | None,
    ev_extra1: str | None = None,
    ev_extra2: str | None = None,
) -> Change | None:
    """Read one event.

    Args:
        ev_id: Its id.
        at_us: Its time, microseconds since 1970 in UTC.
        ev_type, ev_data, ev_extra1, ev_extra2: As the trigger wrote them.

    Returns:
        None when it is no change of a row: a log may hold other events too.

    Raises:
        SluiceError: It says that it is one and cannot be read, or is one of `pgq.sqltriga`, which writes parts of
            statements and no rows.
    """
    if not ev_type or ev_data is None:
        return None
    if ev_type in _OURS:
        return _of_capture(ev_id, at_us, ev_type, ev_data)
    if not ev_extra1:
        return None
    try:
        if ev_type.startswith('{"op":'):
            return _of_json_trigger(ev_id, at_us, ev_type, ev_data, ev_extra2)
        if ev_type == "R" and not ev_data:
            return Change(ev_extra1, (), ev_id, at_us, "t")
        if ev_type[1:2] == ":" and ev_type[0] in _LETTERS:
            return _of_form_trigger(ev_id, at_us, ev_type, ev_data, ev_extra1, ev_extra2)
    except (ValueError, KeyError, TypeError) as error:
        raise SluiceError(
            f"event {ev_id} says that it is a change of {ev_extra1}, and cannot be read: {error}; a trigger with "
            "ev_type= or ev_data= of its own gives no rows: leave its table out"
        ) from error
    if ev_type in _STATEMENTS and "." in ev_extra1:
        raise SluiceError(
            f"event {ev_id} is a statement of pgq.sqltriga for {ev_extra1}, and no row; capture the table with "
            "sluice.capture, pgq.jsontriga or pgq.logutriga, or leave it out"
        )
    return None


def _of_capture(ev_id: int, at_us: int, ev_type: str, ev_data: str) -> Change | None:
    try:
        envelope = _DECODER.decode(ev_data)
        source = envelope["source"]
        table = f"{source['schema']}.{source['table']}"
        key = tuple(source["key"] or ())
        before, after = envelope["before"], envelope["after"]
        same = envelope["op"] == ev_type
    except (ValueError, KeyError, TypeError):
        return None  # an application's own event whose type is one of these letters
    if not same:
        return None
    return Change(
        table,
        key,
        ev_id,
        at_us,
        ev_type,
        _flat(before, ev_data, "before"),
        _flat(after, ev_data, "after"),
        source.get("txId"),
    )


def _of_json_trigger(ev_id: int, at_us: int, ev_type: str, ev_data: str, old: str | None) -> Change:
    head = json.loads(ev_type)
    table, op = ".".join(head["table"]), _OPERATIONS[head["op"]]
    if op == "t":
        return Change(table, (), ev_id, at_us, op)
    key = tuple(head["pkey"])
    row = _flat(_object(ev_data), ev_data)
    if op == "d":
        return Change(table, key, ev_id, at_us, op, before=row)
    before = _flat(_object(old), old) if old else None
    return Change(table, key, ev_id, at_us, op, before, row)


def _of_form_trigger(
    ev_id: int, at_us: int, ev_type: str, ev_data: str, table: str, old: str | None
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
        name, is_there, value = field.partition("=")
        # A null is a name alone: without the sign an empty text is not told from it.
        row[unquote_plus(name, errors="strict")] = (
            unquote_plus(value, errors="strict") if is_there else None
        )
    return row


def _object(text: str) -> dict[str, Any]:
    document = _DECODER.decode(text)
    if not isinstance(document, dict):
        raise TypeError("its data is no JSON object")
    return document


def _flat(row: dict[str, Any] | None, document: str, member: str | None = None) -> Row | None:
    """The row with arrays and objects as the text they have in the document."""
    if row is None:
        return None
    nested = [name for name, value in row.items() if value.__class__ in _NESTED]
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
    """The members of the JSON object that begins here: name, and where the value begins and ends."""
    at = _after_space(text, _after_space(text, begin) + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _after_space(text, _after_space(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        yield name, start, end
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
