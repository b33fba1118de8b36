"""`pgsluice shards`, and the commands that show all shards or one."""

from __future__ import annotations

import json

import psycopg
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from pgsluice.cli.main import EXIT_ERROR, EXIT_USAGE, cli
from pgsluice.client import WorkQueue
from pgsluice.dashboard import app
from pgsluice.errors import ArgumentError, ShardError
from pgsluice.shards import Shards
from support.dashboard import LOCAL

DOWN = "postgresql://127.0.0.1:1/none"


@pytest.fixture
def file(make_database_18, tmp_path):
    """The file of the shards a, with the queue `orders`, b, and c, which is down."""
    urls = {"a": make_database_18().url, "b": make_database_18().url, "c": DOWN}
    path = tmp_path / "shards.toml"
    lines = [f'{name} = {{ dsn = "{url}" }}' for name, url in urls.items()]
    path.write_text("\n".join(["[shards]", *lines, ""]))
    return path


@pytest.fixture
def run(file, monkeypatch):
    monkeypatch.setenv("PGSLUICE_SHARDS", str(file))

    def run(*arguments: str, code: int = 0):
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == code, (done.output, done.exception)
        return done

    return run


def drop_c(file) -> None:
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith("c ")))


def test_commands_run_on_the_shard_of_the_option(run, file):
    run("queue", "create", "orders", "--shard", "a")
    found = json.loads(run("queue", "list", "--json", "--shard", "a").stdout)
    assert [each["queue_name"] for each in found] == ["orders"]
    assert "shard" not in found[0]
    assert json.loads(run("queue", "list", "--json", "--shard", "b").stdout) == []
    usage = run("queue", "create", "orders", code=EXIT_USAGE)
    assert f"give --shard NAME; {file} has: a, b, c" in usage.stderr
    both = run("queue", "create", "orders", "--shard", "a", "--dsn", DOWN, code=EXIT_USAGE)
    assert "--dsn and --shards both name databases" in both.stderr


@pytest.mark.slow
def test_commands_show_all_shards_and_name_the_one_that_is_down(run, file):
    run("queue", "create", "orders", "--shard", "a")
    listed = CliRunner().invoke(cli, ["queue", "list", "--json"])
    assert listed.exit_code == EXIT_ERROR
    assert [(each["shard"], each["queue_name"]) for each in json.loads(listed.stdout)] == [
        ("a", "orders")
    ]
    status = CliRunner().invoke(cli, ["status", "--json"])
    found = {each["shard"]: each for each in json.loads(status.stdout)}
    assert found["a"]["queues"] == ["orders"]
    assert "cannot connect" in found["c"]["problems"][0]
    assert "Connection refused" in found["c"]["problems"][0]
    shards = CliRunner().invoke(cli, ["shards", "list", "--json"])
    assert [(each["shard"], each["is_up"]) for each in json.loads(shards.stdout)] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]
    assert shards.exit_code == EXIT_ERROR
    checked = CliRunner().invoke(cli, ["doctor", "--json"])
    assert [each.get("error") is None for each in json.loads(checked.stdout)] == [True, True, False]
    metrics = run("metrics").stdout
    assert 'pgsluice_up{shard="a"} 1.0' in metrics
    assert 'pgsluice_up{shard="c"} 0.0' in metrics
    assert metrics.count("# TYPE pgsluice_up gauge") == 1
    refused = CliRunner().invoke(cli, ["shards", "apply"])
    assert isinstance(refused.exception, ShardError)
    assert "shard 'c' is not available" in str(refused.exception)


def test_file_is_applied_and_a_key_moved(run, file):
    drop_c(file)
    run("queue", "create", "orders", "--shard", "a")
    assert "generation 1 is active; messages moved: 0" in run("shards", "apply").stderr
    home = Shards.load(file).home("acme")
    to = "ab".replace(home, "")
    assert "generation 2 is active" in run("shards", "move", "acme", to).stderr
    assert Shards.load(file).home("acme") == to
    found = json.loads(run("shards", "list", "--json").stdout)
    assert [(each["generation"], each["state"]) for each in found] == [(2, "active")] * 2
    assert {each["shard"]: each["pins"] for each in found} == {home: 0, to: 1}
    assert json.loads(run("queue", "list", "--json", "--shard", "b").stdout) != []
    refused = CliRunner().invoke(cli, ["shards", "move", "acme", "nowhere"])
    assert isinstance(refused.exception, ArgumentError)
    assert "is not a shard; use one of: a, b" in str(refused.exception)


@pytest.mark.slow
def test_dashboard_switches_between_shards_and_lists_those_that_are_down(file):
    shards = Shards.load(file)
    with psycopg.connect(shards.dsn("a"), autocommit=True) as connection:
        work = WorkQueue(connection)
        work.create("parcels")
        work.send("parcels", {})
    served = app(shards=shards, allow_actions=True, key="secret")
    with TestClient(served, **LOCAL) as client:
        page = client.get("/")
        assert page.url.path == "/a/shards"
        text = page.text
        assert all(f'href="/{name}/"' in text for name in "abc")
        assert ">down<" in text.rpartition('href="/c/"')[2].partition("</tr>")[0]
        assert ">up<" in text.rpartition('href="/a/"')[2].partition("</tr>")[0]
        assert "parcels" in client.get("/a/queues").text
        assert 'href="/b/"' in client.get("/a/queues").text
        assert "parcels" not in client.get("/b/queues").text
        client.get("/", params={"key": "secret"})
        assert client.cookies.jar is not None
        (cookie,) = client.cookies.jar
        assert cookie.path == "/"  # valid for all shards
