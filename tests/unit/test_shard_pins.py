"""The file of shards with one pin changed: the rest of its text stays."""

from __future__ import annotations

import tomllib

import pytest

from pgsluice.errors import ConfigurationError
from pgsluice.ops.shards.pin_file import set_pin
from pgsluice.shards import Shards
from pgsluice.spark.shards import places_of, shard_accesses

SHARDS = '# Servers\n[shards]\na = { dsn_env = "A" } # first\nb = { dsn_file = "b.dsn" }\n'


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ("", '\n[pins]\n"acme" = "b"\n'),
        ('[pins]\n"x" = "a" # why\n', '[pins]\n"x" = "a" # why\n"acme" = "b"\n'),
        ("[pins]\nacme = 'a'\nx = 'a'\n", '[pins]\nx = \'a\'\n"acme" = "b"\n'),
    ],
)
def test_pin_is_added_or_replaced(tmp_path, pins, expected):
    path = tmp_path / "shards.toml"
    path.write_text(SHARDS + pins)
    path.chmod(0o600)

    assert set_pin(path, "acme", "b")
    assert path.read_text() == SHARDS + expected
    assert path.stat().st_mode & 0o777 == 0o600
    assert not set_pin(path, "acme", "b")
    assert set_pin(path, "acme", None)
    assert "acme" not in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("key", ['a"b\\c', "ein Schlüssel", "tab\t", "\x7f", "[pins]", "#"])
def test_pin_of_any_key_is_written(tmp_path, key):
    path = tmp_path / "shards.toml"
    path.write_text(SHARDS)
    set_pin(path, key, "b")
    set_pin(path, "other", "a")

    assert tomllib.loads(path.read_text())["pins"] == {key: "b", "other": "a"}


def test_pins_in_another_form_are_refused_and_the_file_is_unchanged(tmp_path):
    path = tmp_path / "shards.toml"
    text = 'pins = { acme = "a" }\n' + SHARDS
    path.write_text(text)

    with pytest.raises(ConfigurationError, match="write them as lines below"):
        set_pin(path, "acme", "b")
    assert path.read_text() == text


def test_spark_takes_the_file_of_shards(tmp_path):
    path = tmp_path / "shards.toml"
    path.write_text(SHARDS)

    assert places_of(str(path)) == {"a": "env:A", "b": f"file:{tmp_path}/b.dsn"}
    assert places_of({"x": "env:X"}) == {"x": "env:X"}
    found = shard_accesses({"shards": str(path)})
    assert (found["a"].dsn_env, found["b"].dsn_file) == ("A", f"{tmp_path}/b.dsn")
    assert Shards.load(path).names == ("a", "b")
