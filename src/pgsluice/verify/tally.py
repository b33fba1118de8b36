"""Compare two sets of rows larger than memory by hashes of their keys and values.

Each row becomes 32 bytes: a hash of its key and a hash of the whole row. The first byte of the key hash partitions both
sides into 256 parts, as in a hash join, and the parts are compared one by one. Neither side is sorted, so differing
collations do not matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from pgsluice.verify.report import KINDS, Kind

HASH_BYTES = 16
_RECORD_BYTES = 2 * HASH_BYTES
_PARTS = 256
# Per side; more spills to files.
_HELD_BYTES_MAX = 32 << 20
# Keys per kind of difference. A second read of the rows finds the values of the lowest keys for the report.
_REMEMBERED_MAX = 50_000

# Key, whole row, and whether the other side may lack the row. The key is a prefix of the row.
Line = tuple[bytes, bytes, bool]


def key_hash(key: bytes) -> bytes:
    """Return the hash of a key."""
    return blake2b(key, digest_size=HASH_BYTES).digest()


@dataclass(slots=True)
class Findings:
    """Differences between two tallies.

    Attributes:
        counts: Number of rows per kind of difference.
        remembered: Hashes of their keys, up to a limit per kind.
        only_first: Number of rows only in the first tally, as permitted.
        only_second: Number of rows only in the second tally, as permitted.
        digests: Order-independent hashes of all rows, one per tally.
    """

    counts: Counter[Kind] = field(default_factory=Counter)
    remembered: dict[Kind, set[bytes]] = field(
        default_factory=lambda: {kind: set() for kind in KINDS}
    )
    only_first: int = 0
    only_second: int = 0
    digests: tuple[str, str] = ("", "")

    def add(self, kind: Kind, key: bytes, count: int = 1) -> None:
        """Record differing rows of one key."""
        self.counts[kind] += count
        if len(self.remembered[kind]) < _REMEMBERED_MAX:
            self.remembered[kind].add(key)


class Tally:
    """Hashes of the rows of one side.

    Args:
        folder: Empty folder to spill to; the caller removes it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # First the rows that the other side must have, then those that it may lack.
        self._parts = [bytearray() for _ in range(2 * _PARTS)]
        self._held_bytes = 0
        self.rows = 0

    def add(self, lines: Iterable[Line]) -> None:
        """Add rows."""
        parts, count, room = self._parts, 0, _HELD_BYTES_MAX - self._held_bytes
        for key, line, may_be_alone in lines:
            known = blake2b(key, digest_size=HASH_BYTES).digest()
            part = parts[known[0] + _PARTS * may_be_alone]
            part += known
            part += blake2b(line, digest_size=HASH_BYTES).digest()
            count += 1
            room -= _RECORD_BYTES
            if room <= 0:
                self._spill()
                room = _HELD_BYTES_MAX
        self._held_bytes = _HELD_BYTES_MAX - room
        self.rows += count

    def part(self, number: int) -> tuple[list[bytes], list[bytes]]:
        """Return the records of one part: those that the other side must have, and those that it may lack."""
        return self._records(number), self._records(number + _PARTS)

    def _records(self, number: int) -> list[bytes]:
        file = self._folder / str(number)
        data = (file.read_bytes() if file.exists() else b"") + bytes(self._parts[number])
        return [data[at : at + _RECORD_BYTES] for at in range(0, len(data), _RECORD_BYTES)]

    def _spill(self) -> None:
        for number, part in enumerate(self._parts):
            if part:
                with (self._folder / str(number)).open("ab") as file:
                    file.write(part)
                part.clear()


def compare(first: Tally, second: Tally) -> Findings:
    """Compare the tallies of PostgreSQL (first) and of the lake (second)."""
    findings = Findings()
    sums = [0, 0]
    for number in range(_PARTS):
        parts = first.part(number), second.part(number)
        for side, part in enumerate(parts):
            sums[side] += sum(
                int.from_bytes(record[HASH_BYTES:], "big") for records in part for record in records
            )
        _compare_part(*parts, findings)
    # A sum does not depend on the order, and unlike XOR, duplicates do not cancel out.
    first_sum, second_sum = (f"{total % (1 << 8 * HASH_BYTES):032x}" for total in sums)
    findings.digests = first_sum, second_sum
    return findings


def _compare_part(
    first: tuple[list[bytes], list[bytes]],
    second: tuple[list[bytes], list[bytes]],
    findings: Findings,
) -> None:
    ours, theirs = first[0] + first[1], second[0] + second[1]
    ours.sort()
    theirs.sort()
    if ours == theirs:
        return
    left, right = Counter(ours), Counter(theirs)
    only_left, only_right = left - right, right - left
    ours_of, theirs_of = _by_key(left), _by_key(right)
    may_be_alone = (
        {record[:HASH_BYTES] for record in first[1]},
        {record[:HASH_BYTES] for record in second[1]},
    )
    left_by_key, right_by_key = _by_key(only_left), _by_key(only_right)
    for key in left_by_key.keys() | right_by_key.keys():
        changed = min(left_by_key[key], right_by_key[key])
        if changed:
            findings.add("changed", key, changed)
        missing, more = left_by_key[key] - changed, right_by_key[key] - changed
        if key in may_be_alone[0] and not theirs_of[key]:
            findings.only_first += missing
        elif missing:
            findings.add("missing", key, missing)
        if more and not ours_of[key]:
            more -= 1
            if key in may_be_alone[1]:
                findings.only_second += 1
            else:
                findings.add("extra", key)
        if more:
            findings.add("doubled", key, more)


def _by_key(records: Mapping[bytes, int]) -> dict[bytes, int]:
    counts: dict[bytes, int] = defaultdict(int)
    for record, count in records.items():
        counts[record[:HASH_BYTES]] += count
    return counts


def matching(
    lines: Iterable[Line], kinds: Mapping[bytes, Kind]
) -> Iterator[tuple[Kind, bytes, Line]]:
    """Yield the rows with these keys, with their kind of difference and key hash."""
    for line in lines:
        known = key_hash(line[0])
        kind = kinds.get(known)
        if kind is not None:
            yield kind, known, line
