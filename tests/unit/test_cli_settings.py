"""NAME=VALUE arguments: parsed by the types of a TypedDict, shown by the types of a record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict

import click
import pytest

from pgsluice.cli.settings import parse_settings, show_record
from pgsluice.errors import PrivilegeError


class Options(TypedDict, total=False):
    text: str | None
    flag: bool | None
    count: int | None
    factor: float | None
    max_age: timedelta | None
    mode: Literal["fast", "slow"] | None
    weights: Sequence[int] | None


@dataclass
class Record:
    name: str
    max_age: timedelta | None
    lease: timedelta


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("text=a=b c", "text", "a=b c"),
        ("text=forever", "text", "forever"),
        ("flag=on", "flag", True),
        ("flag=no", "flag", False),
        ("count=-3", "count", -3),
        ("factor=1.5", "factor", 1.5),
        ("max-age=1.5h", "max_age", timedelta(minutes=90)),
        ("max_age=90", "max_age", timedelta(seconds=90)),
        ("mode=slow", "mode", "slow"),
        ("weights=16, 4,1", "weights", [16, 4, 1]),
    ],
)
def test_setting_has_the_type_of_its_option(setting, name, value):
    assert parse_settings([setting], Options) == {name: value}


@pytest.mark.parametrize("name", Options.__annotations__)
def test_empty_value_is_the_default(name):
    assert parse_settings([f"{name}="], Options) == {name: None}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["count"], "'count' is not a setting; write NAME=VALUE"),
        (
            ["=1"],
            "No such option ''. There are: text, flag, count, factor, max_age, mode, weights.",
        ),
        (["cuont=1"], "No such option 'cuont'. Did you mean 'count'?"),
        (["count=1", "count="], "count is given twice"),
        (["max-age=1", "max_age=2"], "max_age is given twice"),
        (["count=1.5"], "count: '1.5' is not a valid integer."),
        (["factor=x"], "factor: 'x' is not a valid float."),
        (["flag=2"], "flag: '2' is not a valid boolean"),
        (["max_age=1y"], "max_age: '1y' is not a valid duration"),
        (["mode=medium"], "mode: 'medium' is not one of 'fast', 'slow'."),
        (["weights=1,,2"], "weights: '' is not a valid integer."),
    ],
)
def test_invalid_setting_is_a_usage_error_with_its_name(settings, words):
    with pytest.raises(click.UsageError) as refused:
        parse_settings(settings, Options)

    assert words in refused.value.message


def test_durations_are_shown_in_seconds_by_name_also_without_a_value(capsys):
    record = Record("orders", None, timedelta(minutes=1))

    show_record(record, as_json=True, claims=lambda: [Record("a", None, timedelta(0))])

    assert json.loads(capsys.readouterr().out) == {
        "name": "orders", "max_age_s": None, "lease_s": 60.0,
        "claims": [{"name": "a", "max_age": None, "lease": 0.0}],
    }  # fmt: skip
    show_record(record, as_json=False)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert printed == [["name", "value"], ["name", "orders"], ["max_age"], ["lease", "0:01:00"]]


def test_first_rows_of_each_list_are_shown_and_the_others_counted(capsys):
    def unreadable():
        raise PrivilegeError("permission denied")

    record = Record("orders", None, timedelta(0))
    lists = {
        "dead_keys": lambda: [{"key": f"k{n}"} for n in range(25)],
        "open_claims": list,
        "types": unreadable,
    }

    show_record(record, as_json=False, **lists)
    printed = capsys.readouterr().out
    show_record(record, as_json=True, **lists)
    found = json.loads(capsys.readouterr().out)

    assert "dead keys:\n" in printed
    assert " k19 " in printed
    assert " k20 " not in printed
    assert printed.endswith(
        "and 5 more; --json has all\nno open claims\ntypes: this role may not read them\n"
    )
    assert [len(found["dead_keys"]), found["open_claims"], found["types"]] == [25, [], None]
