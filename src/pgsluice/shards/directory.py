"""The directory of shards: which database a key belongs to. Reads a file, and never connects.

[shards]
a = { dsn = "postgresql://me@host-a/shop" }
b = { dsn_env = "SHOP_B" }          # an environment variable that holds the DSN
c = { dsn_file = "secrets/c.dsn" }  # a file, relative to the folder of this one, readable only by its owner

[pins]                              # optional: keys that belong to a shard of your choice
"acme" = "b"
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pgsluice.connection import SourcedDsn, read_private
from pgsluice.errors import ConfigurationError
from pgsluice.settings import variable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_WAYS = ("dsn", "dsn_env", "dsn_file")


@dataclass(frozen=True)
class Directory:
    """The names of shards, and the keys that are pinned to one.

    Attributes:
        names: Names of the shards, sorted.
        pins: Shard by key, for keys that do not belong where their hash is.
    """

    names: tuple[str, ...]
    pins: Mapping[str, str] = field(default_factory=dict)

    def home(self, key: str) -> str:
        """Return the shard of a key: its pin, else by rendezvous hashing.

        Each shard has a score with each key, and the highest wins. So a new shard takes over 1/n of the keys, and no
        key moves between the others. All processes and versions compute the same.
        """
        return self.pins.get(key) or max(self.names, key=lambda name: (_score(name, key), name))

    def pinned(self, key: str, name: str) -> Directory:
        """Return the directory with one more pin; without the pin where hashing gives the same shard."""
        pins = {one: shard for one, shard in self.pins.items() if one != key}
        unpinned = Directory(self.names, pins)
        return (
            unpinned if unpinned.home(key) == name else Directory(self.names, {**pins, key: name})
        )

    def to_json(self) -> str:
        """Return it as the databases store it; equal directories give equal texts."""
        return json.dumps({"names": self.names, "pins": self.pins}, sort_keys=True)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the directory that a database stores."""
        return cls(tuple(value["names"]), dict(value["pins"]))


@dataclass(frozen=True, slots=True)
class ShardState:
    """The directory that a database has.

    Attributes:
        shard_name: Its own name.
        generation: Number of the directory.
        directory: Names and pins of all shards.
        is_moving: True while messages move to their shards in this directory.
        before: The directory of the generation before, while messages move; None: there was none, or nothing moves.
        changed_at: Time of the last change.
    """

    shard_name: str
    generation: int
    directory: Directory
    is_moving: bool
    before: Directory | None
    changed_at: datetime

    def is_held(self, key: str) -> bool:
        """True if messages of the key may still move to their shard, so that none may be sent."""
        if not self.is_moving:
            return False
        return self.before is None or self.before.home(key) != self.directory.home(key)


@dataclass(frozen=True)
class Shards:
    """The shards of a file, with their addresses.

    Attributes:
        directory: Names and pins.
        path: The file; None if it was made in a program.
    """

    directory: Directory
    # Not printed: an address may hold a password.
    addresses: Mapping[str, Mapping[str, str]] = field(repr=False)
    path: Path | None = None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the file of shards.

        Raises:
            ConfigurationError: It cannot be read, or a section, a name, an address or a pin is invalid.
        """
        path = Path(path).expanduser().absolute()
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigurationError(
                f"the file of shards {path} cannot be read: {error.strerror}"
            ) from None
        except ValueError as error:
            raise ConfigurationError(f"the file of shards {path} is not TOML: {error}") from None
        if unknown := sorted(content.keys() - {"shards", "pins"}):
            raise ConfigurationError(
                f"{path} has the section {unknown[0]!r}; use [shards] and [pins]"
            )
        shards, pins = content.get("shards"), content.get("pins", {})
        if not isinstance(shards, dict) or not shards:
            raise ConfigurationError(
                f'{path} names no shards; add [shards] with lines such as a = {{ dsn = "…" }}'
            )
        if not isinstance(pins, dict):
            raise ConfigurationError(
                f'[pins] of {path} is not a table; use lines such as "key" = "shard"'
            )
        return cls(_checked(shards, pins, str(path)), shards, path)

    @classmethod
    def given(cls, shards: Shards | str | Path) -> Shards:
        """Return shards, or those of the file with this path.

        Raises:
            ConfigurationError: As for `load`.
        """
        return shards if isinstance(shards, Shards) else cls.load(shards)

    @classmethod
    def of(cls, dsns: Mapping[str, str], pins: Mapping[str, str] | None = None) -> Self:
        """Return shards from DSNs by name, without a file.

        Raises:
            ConfigurationError: As for `load`.
        """
        addresses = {name: {"dsn": dsn} for name, dsn in dsns.items()}
        return cls(_checked(addresses, pins or {}, "Shards.of()"), addresses)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the shards, sorted."""
        return self.directory.names

    def home(self, key: str) -> str:
        """Return the shard of a key by this file. The databases may have a newer directory."""
        return self.directory.home(key)

    def dsn(self, name: str) -> str:
        """Return the DSN of a shard, which may hold a password, with its source for messages.

        Raises:
            ConfigurationError: There is no such shard, or its variable or file has no DSN.
        """
        return SourcedDsn(self._text_of(name), f"shard {name} of {self.place}")

    def _text_of(self, name: str) -> str:
        address = self.addresses.get(name)
        if address is None:
            raise ConfigurationError(
                f"{self.place} has no shard {name!r}; add it to [shards], or use {_listed(self.names)}"
            )
        ((way, value),) = address.items()
        if way == "dsn_env":
            text = variable(os.environ, value)
            if text is None:
                raise ConfigurationError(
                    f"the variable {value} (dsn_env of shard {name!r}) is not set; set it to the DSN"
                )
            return text
        if way == "dsn_file":
            folder = Path.cwd() if self.path is None else self.path.parent
            return read_private(folder / Path(value).expanduser(), f"dsn_file of shard {name!r}")
        return value

    def places(self) -> dict[str, str]:
        """Return where each shard is, as pipelines take it: a DSN, `env:NAME` or `file:PATH`."""
        folder = Path.cwd() if self.path is None else self.path.parent
        found = {}
        for name, address in self.addresses.items():
            ((way, value),) = address.items()
            if way == "dsn_file":
                value = str(folder / Path(value).expanduser())
            found[name] = {"dsn": "", "dsn_env": "env:", "dsn_file": "file:"}[way] + value
        return found

    @cached_property
    def place(self) -> str:
        """The file that names the shards, for messages."""
        return "Shards.of()" if self.path is None else str(self.path)


def _checked(shards: Mapping[str, Any], pins: Mapping[str, Any], place: str) -> Directory:
    """Return the directory of a file.

    Raises:
        ConfigurationError: A name, an address or a pin is invalid. The message never quotes a DSN.
    """
    for name, address in shards.items():
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{place} has the shard {name!r}; use up to 63 letters, digits, - and _ of ASCII"
            )
        is_valid = isinstance(address, dict) and len(address) == 1 and set(address) <= set(_WAYS)
        if not is_valid or not all(
            isinstance(one, str) and one.strip() for one in address.values()
        ):
            raise ConfigurationError(
                f"the address of shard {name!r} in {place} is invalid; use one of {_listed(_WAYS)}"
            )
    for key, name in pins.items():
        if "\0" in key:
            raise ConfigurationError(
                f"the pin of {key!r} in {place} has the character NUL, which no key of a message has; remove it"
            )
        if not isinstance(name, str) or name not in shards:
            raise ConfigurationError(
                f"the pin of {key!r} in {place} is {name!r}; use {_listed(sorted(shards))}"
            )
    return Directory(tuple(sorted(shards)), dict(pins))


def _score(name: str, key: str) -> bytes:
    # A name has no NUL, so that no two pairs have one text. Python's own hash differs between processes.
    return hashlib.blake2b(
        f"{name}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return " or ".join(map(repr, names)) if len(names) < 3 else ", ".join(map(repr, names))
