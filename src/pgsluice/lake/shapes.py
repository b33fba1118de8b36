"""Shapes of captured tables, and what a change of the shape means for the rows in the lake.

A column is known by its number in PostgreSQL (`attnum`), which a rename keeps, and which no other column of the table
ever gets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

_TYPE = re.compile(r"(?P<before>[^(]*?)(?:\((?P<sizes>-?\d+(?:,-?\d+)?)\))?(?P<after>[^()]*)")
_INTEGERS = ("smallint", "integer", "bigint")
_TEXTS = ("text", "character varying", "name")
# Types whose size only limits their values, so that more keeps all as they are.
_LIMITED = (
    "character varying", "bit varying", "time without time zone", "time with time zone", "interval",
    "timestamp without time zone", "timestamp with time zone",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A captured column, as in `sluice.captured_shape`; None for what the transaction could not see.

    Attributes:
        attnum: Its number.
        name: Its name.
        type: Its type with modifiers, of a domain the base type.
        modifier: Its type modifier.
        generated: Its expression if it is a stored generated column, else empty.
        missing: True if rows from before it was added have a default that is not in them.
        definition: Labels of an enum, or attributes of a composite type.
        version: Id of the transaction that last changed its definition.
    """

    attnum: int
    name: str
    type: str
    modifier: int | None = None
    generated: str | None = None
    missing: bool | None = None
    definition: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The captured columns of a table at some time.

    Attributes:
        id: Id in the events.
        table_oid: The table.
        columns: The captured columns in order.
        attributes: Number of all columns that the table had so far.
        storage: Table and file node of its rows.
        order: Higher than that of each earlier shape of the table; 0 for the current shape of a table whose events name
            none.
    """

    id: str
    table_oid: int
    columns: tuple[Column, ...]
    attributes: int
    storage: str | None
    order: int = 0

    @classmethod
    def of(
        cls,
        shape: str,
        table_oid: int,
        columns: Iterable[Mapping[str, Any]],
        attributes: int,
        storage: str | None,
        order: int = 0,
    ) -> Shape:
        """Return a row of `sluice.captured_shape`."""
        known = tuple(Column(**one) for one in columns)
        return cls(shape, table_oid, known, attributes, storage, order)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Shape:
        """Return what `to_json` returned."""
        return cls.of(stored["id"], **{name: stored[name] for name in stored if name != "id"})

    def to_json(self) -> dict[str, Any]:
        """Return this as a JSON object, equal to what is read back from its text."""
        return asdict(self) | {"columns": [asdict(column) for column in self.columns]}

    @property
    def types(self) -> dict[str, str]:
        """The types of the columns by name, in order."""
        return {column.name: column.type for column in self.columns}

    @property
    def by_number(self) -> dict[int, Column]:
        """The columns by number."""
        return {column.attnum: column for column in self.columns}

    def filled(self, earlier: Shape) -> Shape:
        """Return the shape with facts of an earlier one where this one's transaction could not see them."""
        known = earlier.by_number
        columns = tuple(_filled(column, known.get(column.attnum)) for column in self.columns)
        return replace(self, columns=columns)

    def names_in(self, later: Shape) -> dict[str, str | None]:
        """Return the names that the columns have in a later shape; None for dropped ones."""
        now = later.by_number
        return {
            column.name: now[column.attnum].name if column.attnum in now else None
            for column in self.columns
        }


@dataclass(frozen=True, slots=True)
class Transition:
    """Difference between two shapes of a table.

    Attributes:
        renamed: Former names and new names.
        dropped: Names.
        added: Names.
        widened: Names and new types of columns that hold all former values.
        rewritten: The names of those among them whose former values have another text now.
        harm: Reason why rows in the lake may differ from those in PostgreSQL without an event; None if there is none.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    widened: Mapping[str, str] = field(default_factory=dict)
    rewritten: tuple[str, ...] = ()
    harm: str | None = None

    @property
    def kind(self) -> str:
        """The word for it in reports: `same`, `added`, `dropped`, `renamed`, `widened` or `redefined`."""
        if self.harm:
            return "redefined"
        kinds = ("renamed", "dropped", "added", "widened")
        return next((kind for kind in kinds if getattr(self, kind)), "same")


def transition(was: Shape, now: Shape) -> Transition:
    """Return what changed between two shapes of a table.

    Args:
        was: The shape of the rows in the lake.
        now: A later shape, `filled` by the former.
    """
    if was.table_oid != now.table_oid:
        return Transition(harm="the table was dropped and created again")
    before, after = was.by_number, now.by_number
    dropped = tuple(before[number].name for number in before if number not in after)
    new = [after[number] for number in after if number not in before]
    common = [(before[number], after[number]) for number in after if number in before]
    renamed = {old.name: column.name for old, column in common if old.name != column.name}
    widened = {column.name: column.type for old, column in common if old.type != column.type}
    rewritten = tuple(
        column.name for old, column in common if _change_of_type(old, column) == "rewritten"
    )
    harm = _harm_of_common(common, is_rewritten=_is_rewritten(was, now)) or next(
        filter(None, (_harm_of_new(column, was, now) for column in new)), None
    )
    added = tuple(column.name for column in new)
    return Transition(renamed, dropped, added, widened, rewritten, harm)


def _harm_of_common(common: list[tuple[Column, Column]], *, is_rewritten: bool) -> str | None:
    # A column with another type explains why the rows were written again.
    is_explained = any(old.type != column.type for old, column in common)
    for old, column in common:
        if _change_of_type(old, column) is None:
            return f"column {column.name} was {old.type} and is {column.type}, which may have changed its values"
        if is_rewritten and old.generated and column.generated not in ("", old.generated):
            return f"the expression of the generated column {column.name} was changed"
        if _is_redefined(old.definition, column.definition):
            return f"the type of column {column.name} was changed, and with it existing values"
        if old.missing is None and column.missing:
            return f"column {column.name} was added with a default, which existing rows have without events"
        is_altered = None not in (old.version, column.version) and old.version != column.version
        if is_altered and is_rewritten and not is_explained:
            return f"column {column.name} was altered and all rows were written again, perhaps with other values"
    return None


def _harm_of_new(column: Column, was: Shape, now: Shape) -> str | None:
    if column.attnum <= was.attributes:
        return f"column {column.name} was not captured, so rows in the lake lack its values"
    if column.missing or _is_rewritten(was, now):
        return f"column {column.name} was added with a default, which existing rows have without events"
    return None


def _is_rewritten(was: Shape, now: Shape) -> bool:
    """True if the rows, or those of the first partition, are in another file."""
    if was.storage is None or now.storage is None or was.storage == now.storage:
        return False
    return was.storage.split()[0] == now.storage.split()[0]


def _is_redefined(was: str | None, now: str | None) -> bool:
    """True if existing values of a type are written differently; new labels of an enum change none."""
    if was is None or now is None or was == now:
        return False
    if not (was.startswith("enum ") and now.startswith("enum ")):
        return True
    before, after = (json.loads(labels.removeprefix("enum ")) for labels in (was, now))
    # The events of concurrent transactions may have the new labels and then the former ones.
    return not (_is_part(before, after) or _is_part(after, before))


def _is_part(labels: list[str], others: list[str]) -> bool:
    """True if these labels are among others in the same order."""
    rest = iter(others)
    return all(label in rest for label in labels)


def _filled(column: Column, earlier: Column | None) -> Column:
    if column.modifier is not None or earlier is None:
        return column
    kind = earlier.type if _parts(earlier.type)[0] == column.type else column.type
    return replace(
        column,
        type=kind,
        modifier=earlier.modifier if kind == earlier.type else None,
        generated=earlier.generated,
        missing=earlier.missing,
        definition=earlier.definition,
        version=earlier.version,
    )


def _change_of_type(old: Column, column: Column) -> str | None:
    """Return what a change of a column's type does to its values, see `_retyping`."""
    # The modifier of the former type may be unknown.
    is_same = old.modifier is None and _parts(column.type)[0] == _parts(old.type)[0]
    return "same" if is_same else _retyping(old.type, column.type)


def _retyping(was: str, now: str) -> str | None:
    """Return what `alter column type` does to values of every kind.

    Returns:
        `same`: they and their text stay; `rewritten`: they are equal, and may have another text; None: any may change.
    """
    if was == now:
        return "same"
    (kind, sizes), (new_kind, new_sizes) = _parts(was), _parts(now)
    if kind.endswith("[]") and new_kind.endswith("[]"):
        return "same" if _retyping(was[:-2], now[:-2]) == "same" else None
    if kind == new_kind == "numeric":
        return _renumbering(sizes, new_sizes)
    if kind == new_kind and kind in _LIMITED:
        return "same" if not new_sizes or (sizes and sizes < new_sizes) else None
    if kind in _TEXTS and new_kind in _TEXTS:
        return "same" if not new_sizes and new_kind != "name" else None
    if kind in _INTEGERS:
        return _from_integer(kind, new_kind, new_sizes)
    if (kind, new_kind) == ("real", "double precision"):
        return "rewritten"
    return None


def _renumbering(sizes: tuple[int, ...], new: tuple[int, ...]) -> str | None:
    if not new:
        return "same"
    if not sizes or new[1] < sizes[1] or new[0] - new[1] < sizes[0] - sizes[1]:
        return None
    return "same" if new[1] == sizes[1] else "rewritten"


def _from_integer(kind: str, now: str, sizes: tuple[int, ...]) -> str | None:
    if now in _INTEGERS:
        return "same" if _INTEGERS.index(now) > _INTEGERS.index(kind) else None
    if now == "numeric":
        return "same" if not sizes or not sizes[1] else "rewritten"
    return "rewritten" if now == "double precision" and kind != "bigint" else None


def _parts(kind: str) -> tuple[str, tuple[int, ...]]:
    """Return a type without its sizes, and these."""
    found = _TYPE.fullmatch(kind)
    if found is None:
        return kind, ()
    sizes = found["sizes"]
    return found["before"] + found["after"], tuple(map(int, sizes.split(","))) if sizes else ()
