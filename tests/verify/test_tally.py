"""Tallies of two sets of rows, in memory and on disk, against a full comparison."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from pgsluice.verify import tally
from pgsluice.verify.tally import Findings, Line, Tally, compare, key_hash


def tallied(folder: Path, lines: list[Line]) -> Tally:
    folder.mkdir(parents=True, exist_ok=True)
    made = Tally(folder)
    made.add(lines)
    return made


def plainly(ours: list[Line], theirs: list[Line]) -> Counter[str]:
    """Return the differences by key, from complete lists."""
    found: Counter[str] = Counter()
    for key in {line[0] for line in (*ours, *theirs)}:
        mine, yours = ([line for line in side if line[0] == key] for side in (ours, theirs))
        here, there = (Counter(text for _, text, _ in side) for side in (mine, yours))
        left, right = (here - there).total(), (there - here).total()
        found["changed"] += min(left, right)
        missing, more = max(0, left - right), max(0, right - left)
        if missing and not there and any(alone for *_, alone in mine):
            found["only_first"] += missing
        else:
            found["missing"] += missing
        if more and not here:
            more -= 1
            may_be = any(alone for *_, alone in yours)
            found["only_second" if may_be else "extra"] += 1
        found["doubled"] += more
    return +found


def as_counts(findings: Findings) -> Counter[str]:
    counts = Counter({str(kind): count for kind, count in findings.counts.items()})
    counts["only_first"], counts["only_second"] = findings.only_first, findings.only_second
    return +counts


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_differences_equal_those_of_a_full_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, held: int
):
    monkeypatch.setattr(tally, "_HELD_BYTES_MAX", held)
    dice = random.Random(seed)

    def some() -> list[Line]:
        return [
            (b"%d" % key, b"%d\t%d" % (key, dice.choice((0, 0, 0, 1))), key % 7 == 0)
            for key in range(1000)  # so that each kind of difference occurs with any seed
            for _ in range(dice.choice((0, 1, 1, 1, 1, 2)))
        ]

    ours, theirs = some(), some()
    found = compare(tallied(tmp_path / "1", ours), tallied(tmp_path / "2", theirs))

    assert as_counts(found) == plainly(ours, theirs)
    assert {"missing", "extra", "doubled", "changed", "only_first", "only_second"} == set(
        plainly(ours, theirs)
    )
    known = set().union(*found.remembered.values())
    assert known <= {key_hash(line[0]) for line in (*ours, *theirs)}


def test_the_same_rows_in_another_order_are_equal_and_have_one_digest(tmp_path: Path):
    lines = [(b"%d" % n, b"%d\trow" % n, False) for n in range(1000)]
    one, other = tallied(tmp_path / "1", lines), tallied(tmp_path / "2", lines[::-1])
    less = tallied(tmp_path / "3", lines[1:])

    same, fewer = compare(one, other), compare(one, less)

    assert as_counts(same) == {}
    assert same.digests[0] == same.digests[1] == fewer.digests[0] != fewer.digests[1]
    assert as_counts(fewer) == {"missing": 1}
