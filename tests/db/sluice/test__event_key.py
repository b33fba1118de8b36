"""sluice._event_key, and the option `key` of _group_settings: the ordering key of an event."""

from __future__ import annotations

import pytest

from support import value
from support.log import error_of

QUERY = "select sluice._event_key(%s, 'type', %s, 'one', 'two', 'three', 'four')"
REQUIRE = "select sluice._group_settings(null, jsonb_build_object('key', %s::text))"


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("ev_type", "type"),
        ("ev_data", '{"a": 1}'),
        ("ev_extra1", "one"),
        ("ev_extra2", "two"),
        ("ev_extra3", "three"),
        ("ev_extra4", "four"),
    ],
)
def test_a_field_is_a_key(connection, key, found):
    assert value(connection, QUERY, key, '{"a": 1}') == found


@pytest.mark.parametrize(
    ("key", "data", "found"),
    [
        ("$.a.b", '{"a": {"b": "x"}}', "x"),
        ('$."a b"[1]', '{"a b": [1, 2.50]}', "2.50"),
        ("$.a", '{"a": true}', "true"),
        ("$.a", '{"a": [1, {"b": 2}]}', '[1, {"b": 2}]'),
        ("$", '"x"', "x"),
        ("$.a", '{"a": null}', None),
        ("$.a", '{"b": 1}', None),
        ("$.a", "[1, 2]", None),
        ("$.a", "no json", None),
        ("$.a", '{"a": "\\u0000"}', None),
        ("$.a", '{"a": 1e999999}', None),
        ("$.a", "[" * 100_000, None),
        ("$.a", "", None),
        ("$.a", None, None),
    ],
)
def test_a_path_has_a_value_or_there_is_no_key(connection, key, data, found):
    assert value(connection, QUERY, key, data) == found


def test_a_long_key_is_its_beginning_and_a_hash(connection):
    keys = [value(connection, QUERY, "ev_data", "é" * 5000 + end) for end in ("x", "y", "x")]

    assert keys[0] == keys[2] != keys[1]
    assert all(key.startswith("é" * 64 + "...") and len(key) == 131 for key in keys)
    assert value(connection, QUERY, "ev_data", "x" * 400) == "x" * 400


@pytest.mark.parametrize("key", ["ev_type", "ev_extra4", "$", "$.a", '$.a."b c"[0].d', "$[12]"])
def test_fields_and_paths_of_members_and_elements_can_be_keys(connection, key):
    connection.execute(REQUIRE, (key,))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ev_id",
        "ev_extra5",
        "lower(ev_type)",
        "a",
        "$.*",
        "$.a ? (@ > 1)",
        "$.a.size()",
        "$.a + 1",
        "strict $.a",
        "$[*]",
        "$.a[last]",
    ],
)
def test_nothing_else_can(connection, key):
    code, message = error_of(connection, REQUIRE, key)

    assert code == "22023"
    assert message == f"a share group cannot have the key '{key}'"


def test_invalid_path_is_refused(connection):
    assert error_of(connection, REQUIRE, "$.a[")[0] == "42601"
