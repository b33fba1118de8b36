"""The directory of shards: the file, and the home of a key."""

from __future__ import annotations

import collections
import json
import subprocess
import sys

import pytest

from pgsluice.connection import resolve
from pgsluice.errors import ConfigurationError
from pgsluice.shards import Directory, Shards

ABC = Directory(("a", "b", "c"))


@pytest.fixture
def file(tmp_path):
    def write(text: str):
        path = tmp_path / "shards.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("key", "name"),
    [("acme", "a"), ("globex", "b"), ("", "b"), ("ключ", "a"), ("tenant 17", "c"), ("0", "a")],
)
def test_home_of_a_key_is_the_same_in_every_version(key, name):
    assert ABC.home(key) == name


def test_home_of_a_key_is_the_same_in_every_process():
    keys = [f"key {number}" for number in range(100)]
    code = (
        "import json; from pgsluice.shards import Directory; d = Directory(('a', 'b', 'c')); "
        f"print(json.dumps([d.home(key) for key in {keys!r}]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [ABC.home(key) for key in keys]


def test_keys_are_spread_evenly():
    counts = collections.Counter(ABC.home(f"tenant {number}") for number in range(3000))
    assert all(900 < counts[name] < 1100 for name in "abc"), counts


def test_a_new_shard_takes_its_part_of_the_keys_and_no_other_key_moves():
    after = Directory(("a", "b", "c", "d"))
    keys = [f"tenant {number}" for number in range(4000)]
    moved = [key for key in keys if after.home(key) != ABC.home(key)]
    assert {after.home(key) for key in moved} == {"d"}
    assert 900 < len(moved) < 1100


def test_keys_of_a_removed_shard_are_the_only_ones_that_move():
    after = Directory(("a", "c"))
    for number in range(1000):
        before = ABC.home(f"tenant {number}")
        assert before == "b" or after.home(f"tenant {number}") == before


def test_a_pin_wins_over_the_hash():
    for name in ABC.names:
        assert ABC.pinned("acme", name).home("acme") == name


def test_a_pin_to_the_hashed_shard_is_not_stored():
    home = ABC.home("acme")
    other = next(name for name in ABC.names if name != home)
    assert ABC.pinned("acme", other).pins == {"acme": other}
    assert ABC.pinned("acme", other).pinned("acme", home) == ABC


def test_directory_survives_its_json():
    directory = Directory(("a", "b"), {"ключ": "b", "acme": "a"})
    assert Directory.from_json(json.loads(directory.to_json())) == directory


def test_file_names_databases_in_three_ways(file, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_B", "postgresql://b/shop")
    (tmp_path / "c.dsn").write_text("postgresql://c/shop\n")
    (tmp_path / "c.dsn").chmod(0o600)
    shards = Shards.load(
        file(
            '[shards]\na = { dsn = "postgresql://a/shop" }\nb = { dsn_env = "SHOP_B" }\n'
            'c = { dsn_file = "c.dsn" }\n[pins]\n"acme corp" = "b"\n'
        )
    )
    assert shards.names == ("a", "b", "c")
    assert [shards.dsn(name) for name in shards.names] == [
        f"postgresql://{name}/shop" for name in "abc"
    ]
    assert shards.home("acme corp") == "b"
    assert shards.home("acme") == ABC.home("acme")


def test_address_is_not_printed():
    assert "secret" not in repr(Shards.of({"a": "postgresql://me:secret@a/shop"}))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[shards", "is not TOML"),
        ("", "names no shards"),
        ("[shards]\n", "names no shards"),
        ("[pin]\n", "section 'pin'; use [shards] and [pins]"),
        ('[shards]\n"a b" = { dsn = "x" }\n', "has the shard 'a b'"),
        ('[shards]\na = "postgresql://me:secret@a/shop"\n', "address of shard 'a' in"),
        ('[shards]\na = { dsn = "x", dsn_env = "Y" }\n', "address of shard 'a' in"),
        ('[shards]\na = { dns = "x" }\n', "address of shard 'a' in"),
        ('[shards]\na = { dsn = "" }\n', "address of shard 'a' in"),
        ('[shards]\na = { dsn = "x" }\n[pins]\nacme = "b"\n', "pin of 'acme' in"),
        ('[shards]\na = { dsn = "x" }\n[pins]\nacme = ["a"]\n', "pin of 'acme' in"),
        ('[shards]\na = { dsn = "x" }\n[pins.acme]\nshard = "a"\n', "pin of 'acme' in"),
        ('[shards]\na = { dsn = "x" }\n[pins]\n"a\\u0000" = "a"\n', "the character NUL"),
        ('pins = 3\n[shards]\na = { dsn = "x" }\n', "[pins] of"),
    ],
)
def test_invalid_file_is_refused_with_the_place(file, text, problem):
    with pytest.raises(ConfigurationError) as caught:
        Shards.load(file(text))
    assert problem in str(caught.value)
    assert "shards.toml" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_missing_file_is_refused_with_its_path(tmp_path):
    with pytest.raises(ConfigurationError, match=r"shards\.toml cannot be read"):
        Shards.load(tmp_path / "shards.toml")


def test_unknown_shard_and_missing_variable_are_refused_with_their_names(file):
    shards = Shards.load(file('[shards]\na = { dsn_env = "NO_SUCH_VARIABLE" }\n'))
    with pytest.raises(ConfigurationError, match="has no shard 'z'"):
        shards.dsn("z")
    with pytest.raises(ConfigurationError, match="NO_SUCH_VARIABLE"):
        shards.dsn("a")


def test_file_readable_by_others_is_refused(file, tmp_path):
    (tmp_path / "a.dsn").write_text("postgresql://a/shop")
    (tmp_path / "a.dsn").chmod(0o644)
    shards = Shards.load(file('[shards]\na = { dsn_file = "a.dsn" }\n'))
    with pytest.raises(ConfigurationError, match="readable by other users"):
        shards.dsn("a")


def test_messages_name_the_shard_whose_address_they_used():
    shards = Shards.of({"a": "postgresql://host-a/shop"})

    assert resolve(shards.dsn("a")).source == "shard a of Shards.of()"
