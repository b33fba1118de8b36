"""Payload types: validated conversion of values to JSON and back. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from inspect import isclass, signature
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

from pgsluice.client.json_values import json_text
from pgsluice.client.payload_pydantic import pydantic_converts
from pgsluice.client.unloadable import UnloadableJson
from pgsluice.errors import ArgumentError, PayloadError

# Takes a value and its path for errors: `payload.lines[2].price`.
Convert = Callable[[Any, str], Any]
_ROOT = "payload"


@dataclass(frozen=True, slots=True)
class PayloadType:
    """A type, with conversions of its values to JSON and back.

    Both raise PayloadError on a mismatch, with the path but not the value: the text is stored with a dead letter, and
    may be logged.

    Attributes:
        name: Display name: `Order`, `list[int]`.
        to_json: Converts a value of the type to JSON.
        from_json: Converts a JSON value to the type.
        is_text: True if it is `str` or not annotated: an event then holds the text itself, not JSON.
    """

    name: str
    to_json: Convert
    from_json: Convert
    is_text: bool = field(default=False, kw_only=True)

    def encode(self, value: Any, path: str = _ROOT) -> Any:
        """Convert a value to the JSON value that is sent.

        Raises:
            PayloadError: The value does not match the type; its path is given.
        """
        try:
            return self.to_json(value, path)
        except RecursionError:
            raise PayloadError(f"{path} is nested too deeply") from None

    def decode(self, payload: Any) -> Any:
        """Convert a received JSON value.

        Raises:
            PayloadError: It does not match the type, or Python cannot load it.
        """
        if isinstance(payload, UnloadableJson):
            raise PayloadError(
                f"{_ROOT} is JSON that Python cannot load: it is nested too deeply, or has a number of too many digits"
            )
        try:
            return self.from_json(payload, _ROOT)
        except RecursionError:
            raise PayloadError(f"{_ROOT} is nested too deeply") from None

    def encode_text(self, value: Any, path: str = _ROOT) -> str | None:
        """Convert a value to the text of an event, None to null.

        The text is JSON, unless the type is `str` or not annotated: then it is the value itself.

        Raises:
            PayloadError: The value does not match the type, or has no JSON form.
        """
        payload = self.encode(value, path)
        if payload is None:
            return None
        if self.is_text:
            text: str = _expect(str, payload, path)
            return text
        return json_text(payload, path)

    def decode_text(self, text: str | None) -> Any:
        """Convert the text of an event to a value.

        Raises:
            PayloadError: It is not valid JSON, or does not match the type.
        """
        if text is None or self.is_text:
            return self.decode(text)
        try:
            payload = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"{_ROOT} is not valid JSON: {error}") from error
        return self.decode(payload)


def payload_type(annotation: Any = Any) -> PayloadType:
    """Make a payload type from an annotation.

    JSON's own types are not converted, except an int where a float is expected. Dataclasses and TypedDicts are JSON
    objects; unknown fields are accepted, so that a sender may be newer than a receiver. Enums are their values;
    datetime, date, time, UUID and Decimal are text. Other types require Pydantic, which is imported only for them.

    Args:
        annotation: A type; Any: every JSON value, unconverted.

    Raises:
        ArgumentError: The type is not supported, requires Pydantic, or refers to an undefined name.
    """
    return _Builder().build(annotation)


class _Builder:
    """Builds one type; tracks types under construction, as they may be recursive."""

    def __init__(self) -> None:
        self._known: dict[type, PayloadType] = {}

    def build(self, annotation: Any) -> PayloadType:
        if annotation is Any or annotation is object:
            return PayloadType("Any", _as_it_is, _as_it_is, is_text=True)
        if isclass(annotation) and get_origin(annotation) is None:
            return self._build_class(annotation)
        if annotation is None:
            return self._build_class(NoneType)
        if isinstance(annotation, NewType):
            return self.build(annotation.__supertype__)
        if type(annotation).__name__ == "TypeAliasType":  # Python 3.12: type Lines = list[Line]
            return self.build(annotation.__value__)
        return self._build_generic(annotation, get_origin(annotation), get_args(annotation))

    def _build_class(self, kind: type) -> PayloadType:
        if kind in self._known:
            return self._known[kind]
        if kind in _JSON_TYPES:
            return _plain(kind)
        if kind in _AS_TEXT:
            return _as_text(kind, *_AS_TEXT[kind])
        if hasattr(kind, "__pydantic_validator__"):  # models and Pydantic dataclasses
            return _by_pydantic(kind)
        if issubclass(kind, Enum) and all(isinstance(member.value, str | int) for member in kind):
            return _enum(kind)
        if is_typeddict(kind) or (is_dataclass(kind) and not getattr(kind, "__parameters__", ())):
            return self._build_object(kind)
        return _by_pydantic(kind)

    def _build_generic(
        self, annotation: Any, origin: Any, arguments: tuple[Any, ...]
    ) -> PayloadType:
        if origin is Annotated:
            packages = {type(metadata).__module__.partition(".")[0] for metadata in arguments[1:]}
            if packages & {"pydantic", "pydantic_core", "annotated_types"}:
                return _by_pydantic(annotation)
            return self.build(arguments[0])
        if origin in (Union, UnionType):
            return self._build_union(annotation, arguments)
        if origin is Literal:
            return _literal(arguments)
        if origin in _COLLECTIONS and (origin is not tuple or arguments[1:] == (...,)):
            return _collection(_COLLECTIONS[origin], self.build(arguments[0]))
        if origin in (dict, Mapping) and arguments[0] is str:
            return _dict(self.build(arguments[1]))
        return _by_pydantic(annotation)

    def _build_union(self, annotation: Any, arguments: tuple[Any, ...]) -> PayloadType:
        objects = [kind for kind in arguments if is_typeddict(kind) or is_dataclass(kind)]
        if len(objects) > 1:  # choosing between them takes more than trial conversion
            return _by_pydantic(annotation)
        return _union([self.build(argument) for argument in arguments])

    def _build_object(self, kind: type) -> PayloadType:
        name = kind.__name__
        # Filled below, before any value is converted.
        members: dict[str, tuple[PayloadType, bool]] = {}
        convert = _typed_dict if is_typeddict(kind) else _dataclass
        self._known[kind] = convert(kind, members)
        hints = resolve_hints(kind, name)
        if is_typeddict(kind):
            required: Collection[str] = kind.__required_keys__  # type: ignore[attr-defined]
            for key, hint in hints.items():
                # With deferred annotations, __required_keys__ does not reflect Required and NotRequired.
                qualifier = get_origin(hint)
                inner = get_args(hint)[0] if qualifier in (Required, NotRequired) else hint
                is_required = qualifier is Required or (
                    qualifier is not NotRequired and key in required
                )
                members[key] = (self.build(inner), is_required)
            return self._known[kind]
        for each in fields(kind):
            if each.init:
                is_required = each.default is MISSING and each.default_factory is MISSING
                members[each.name] = (self.build(hints[each.name]), is_required)
        for parameter in signature(kind).parameters.values():
            if parameter.name not in members and parameter.default is parameter.empty:
                raise ArgumentError(
                    f"{name} cannot be a payload: its parameter {parameter.name} is not a field; give it a "
                    "default"
                )
        return self._known[kind]


def resolve_hints(holder: Any, name: str, globals_: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the annotations of an object, with names resolved.

    Raises:
        ArgumentError: A name is not defined in its module.
    """
    try:
        return get_type_hints(holder, globalns=globals_, include_extras=True)
    except NameError as error:
        raise ArgumentError(
            f"an annotation of {name} refers to {error.name!r}, which is not defined at run time; define it at "
            "module level, and import it outside of `if TYPE_CHECKING`"
        ) from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _as_it_is(value: Any, _path: str) -> Any:
    return value


def _expect(kind: type, value: Any, path: str, name: str | None = None) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise _wrong(value, path, name or kind.__name__)
    return value


def _wrong(value: Any, path: str, expected: str) -> PayloadError:
    found = "null" if value is None else f"of type {type(value).__name__}"
    return PayloadError(f"{path} is {found}; it must be {expected}")


_JSON_TYPES = frozenset({dict, list, str, int, float, bool, NoneType})


def _plain(kind: type) -> PayloadType:
    if kind is float:
        return PayloadType("float", _float, _float)
    if kind is NoneType:
        return PayloadType("null", _null, _null)

    def convert(value: Any, path: str) -> Any:
        return value if type(value) is kind else _expect(kind, value, path)

    return PayloadType(kind.__name__, convert, convert, is_text=kind is str)


def _float(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, path, "float")
    try:
        return float(value)
    except OverflowError:
        raise PayloadError(f"{path} is an integer too large for a float") from None


def _null(value: Any, path: str) -> None:
    if value is not None:
        raise _wrong(value, path, "null")


# Functions that write and parse the text.
_AS_TEXT: dict[type, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    datetime: (datetime.isoformat, datetime.fromisoformat),
    date: (date.isoformat, date.fromisoformat),
    time: (time.isoformat, time.fromisoformat),
    UUID: (str, UUID),
    Decimal: (str, Decimal),
}


def _as_text(kind: type, write: Callable[[Any], str], read: Callable[[str], Any]) -> PayloadType:
    def to_json(value: Any, path: str) -> str:
        if type(value) is not kind:  # a datetime is also a date, and would be read as one
            raise _wrong(value, path, kind.__name__)
        return write(value)

    def from_json(payload: Any, path: str) -> Any:
        text = _expect(str, payload, path)
        try:
            return read(text)
        except (ValueError, ArithmeticError) as error:
            raise PayloadError(f"{path} is not a valid {kind.__name__}") from error

    return PayloadType(kind.__name__, to_json, from_json)


def _enum(kind: type[Enum]) -> PayloadType:
    def to_json(value: Any, path: str) -> Any:
        return _expect(kind, value, path).value

    members = {_exact(member.value): member for member in kind}

    def from_json(payload: Any, path: str) -> Any:
        return _one_of(members, payload, path, kind.__name__)

    return PayloadType(kind.__name__, to_json, from_json)


def _literal(values: tuple[Any, ...]) -> PayloadType:
    expected = " or ".join(map(repr, values))
    known = {_exact(value): value for value in values}

    def convert(value: Any, path: str) -> Any:
        return _one_of(known, value, path, expected)

    return PayloadType(expected, convert, convert)


def _exact(value: Any) -> tuple[type, Any]:
    return (type(value), value)  # 1, 1.0 and True are equal as keys


def _one_of(known: Mapping[tuple[type, Any], Any], value: Any, path: str, expected: str) -> Any:
    if not isinstance(value, str | int | None):
        raise _wrong(value, path, expected)
    try:
        return known[_exact(value)]
    except KeyError:
        raise PayloadError(f"{path} is not one of the values of {expected}") from None


_COLLECTIONS: dict[Any, type] = {
    list: list,
    Sequence: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
}


def _collection(kind: type, item: PayloadType) -> PayloadType:
    def to_json(value: Any, path: str) -> list[Any]:
        items = _expect(kind, value, path)
        return [item.to_json(each, f"{path}[{i}]") for i, each in enumerate(items)]

    def from_json(payload: Any, path: str) -> Any:
        items = _expect(list, payload, path)
        return kind(item.from_json(each, f"{path}[{i}]") for i, each in enumerate(items))

    return PayloadType(f"{kind.__name__}[{item.name}]", to_json, from_json)


def _dict(item: PayloadType) -> PayloadType:
    def to_json(value: Any, path: str) -> dict[str, Any]:
        items = _expect(dict, value, path).items()
        return {key: item.to_json(each, f"{path}[{key!r}]") for key, each in items}

    def from_json(payload: Any, path: str) -> dict[str, Any]:
        items = _expect(dict, payload, path).items()
        return {key: item.from_json(each, f"{path}[{key!r}]") for key, each in items}

    return PayloadType(f"dict[str, {item.name}]", to_json, from_json)


def _union(members: list[PayloadType]) -> PayloadType:
    name = " | ".join(member.name for member in members)
    others = [member for member in members if member.name != "null"]

    def convert(value: Any, path: str, converts: list[Convert]) -> Any:
        first: PayloadError | None = None
        for one in converts:
            try:
                return one(value, path)
            except PayloadError as error:
                first = first or error
        if len(others) == 1 and value is not None and first is not None:
            raise first  # more specific than "must be X | null"
        raise _wrong(value, path, name)

    # null last: its errors are uninformative.
    ordered = sorted(members, key=lambda member: member.name == "null")
    to_json = [member.to_json for member in ordered]
    from_json = [member.from_json for member in ordered]
    return PayloadType(
        name,
        lambda value, path: convert(value, path, to_json),
        lambda payload, path: convert(payload, path, from_json),
        is_text=[member.name for member in others] == ["str"],
    )


_Members = Mapping[str, tuple[PayloadType, bool]]


def _typed_dict(kind: type, members: _Members) -> PayloadType:
    def to_json(value: Any, path: str) -> dict[str, Any]:
        found = _expect(dict, value, path, kind.__name__)
        _require(found, members, path)
        return {
            key: members[key][0].to_json(each, f"{path}[{key!r}]") if key in members else each
            for key, each in found.items()
        }

    def from_json(payload: Any, path: str) -> dict[str, Any]:
        found = _expect(dict, payload, path, kind.__name__)
        _require(found, members, path)
        return {
            key: members[key][0].from_json(each, f"{path}[{key!r}]") if key in members else each
            for key, each in found.items()
        }

    return PayloadType(kind.__name__, to_json, from_json)


def _dataclass(kind: type, members: _Members) -> PayloadType:
    def to_json(value: Any, path: str) -> dict[str, Any]:
        if type(value) is not kind:  # fields of a subclass would be lost
            raise _wrong(value, path, kind.__name__)
        return {
            name: member.to_json(getattr(value, name), f"{path}.{name}")
            for name, (member, _) in members.items()
        }

    def from_json(payload: Any, path: str) -> Any:
        found = _expect(dict, payload, path, kind.__name__)
        _require(found, members, path)
        values = {
            name: member.from_json(found[name], f"{path}.{name}")
            for name, (member, _) in members.items()
            if name in found
        }
        try:
            return kind(**values)
        except Exception as error:  # __post_init__ may raise anything
            raise PayloadError(
                f"{path} was rejected by {kind.__name__}: {type(error).__name__}: {error}"
            ) from error

    return PayloadType(kind.__name__, to_json, from_json)


def _require(found: dict[str, Any], members: _Members, path: str) -> None:
    for name, (_, is_required) in members.items():
        if is_required and name not in found:
            raise PayloadError(f"{path}.{name} is missing")


def _by_pydantic(annotation: Any) -> PayloadType:
    name = getattr(annotation, "__name__", None) or str(annotation)
    return PayloadType(name, *pydantic_converts(annotation, name))


TEXT_TYPES = frozenset(_AS_TEXT)
