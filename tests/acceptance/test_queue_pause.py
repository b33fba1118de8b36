"""A pause by `pgsluice queue set`, where it is shown, and `pgsluice actions`, on a real server."""

from __future__ import annotations

import json

import pytest

from pgsluice.cli.main import main


@pytest.fixture
def cli(database_18, capsys):
    """Run a command; return its standard output, and on request its standard error."""

    def run(*arguments, code=0, errors=False):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--dsn", database_18.url])
        printed = capsys.readouterr()
        assert ended.value.code == code, f"{arguments}: {ended.value.code}\n{printed}"
        return printed.err if errors else printed.out

    run("queue", "create", "orders")
    return run


def test_pause_is_shown_with_author_and_reason_until_it_is_resumed(cli):
    cli("queue", "set", "orders", "paused=true", "pause_reason=bank is down")

    assert "has these options already" in cli("queue", "set", "orders", "paused=true", errors=True)
    (listed,) = json.loads(cli("queue", "list", "--json"))
    assert listed["pause_reason"] == "bank is down"
    assert listed["paused_at"] is not None
    assert listed["paused_by"].startswith("role ")
    assert "bank is down" in cli("queue", "list")
    (line,) = json.loads(cli("status", "--json"))["paused"]
    assert line.startswith("orders since ")
    assert line.endswith(": bank is down")
    assert "bank is down" in " ".join(cli("status").split())  # it may be wrapped

    cli("queue", "set", "orders", "paused=false")

    assert "has these options already" in cli("queue", "set", "orders", "paused=false", errors=True)
    (listed,) = json.loads(cli("queue", "list", "--json"))
    assert (listed["paused_at"], listed["pause_reason"]) == (None, None)
    assert json.loads(cli("status", "--json"))["paused"] == []


def test_actions_are_listed_newest_first(cli):
    assert cli("actions") == "no actions\n"
    cli("queue", "set", "orders", "paused=true", "pause_reason=[bank] is down")
    cli("queue", "set", "orders", "paused=false")

    newest, oldest = json.loads(cli("actions", "orders", "--json"))
    assert (newest["action"], oldest["action"]) == ("set_queue_options", "set_queue_options")
    assert (newest["filter"], oldest["filter"]) == ({"paused": False}, {"paused": True})
    assert oldest["note"] == "[bank] is down"
    printed = cli("actions", "--qty", "1", "--before", str(newest["action_id"]))
    assert "[bank] is down" in printed
    assert '"paused": false' not in printed.replace("'", '"').lower()


def test_queues_of_an_older_schema_are_listed(cli, connection):
    connection.execute("drop function sluice.queue_options(text)")

    (listed,) = json.loads(cli("queue", "list", "--json"))

    assert (listed["queue_name"], listed["paused_at"]) == ("orders", None)


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        yield connection
