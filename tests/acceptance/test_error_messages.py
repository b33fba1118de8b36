"""Command errors caused by a server or its data: they name the object and the remedy."""

from __future__ import annotations

import json

import psycopg
import pytest

from pgsluice.cli.main import main


@pytest.fixture
def run_as(capsys):
    """Return a function that runs a command with a DSN; it returns exit code, output and errors."""

    def run_as(dsn, *arguments):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--dsn", dsn])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return int(ended.value.code or 0), printed.out, printed.err

    return run_as


def as_user(dsn, user):
    return psycopg.conninfo.make_conninfo(dsn, user=user)


def test_status_of_a_role_without_rights_names_the_role_to_grant(database_18, run_as):
    with database_18.connect() as connection:
        connection.execute("drop role if exists without_rights")
        connection.execute("create role without_rights login")
    try:
        code, output, _ = run_as(as_user(database_18.url, "without_rights"), "status", "--json")
    finally:
        with database_18.connect() as connection:
            connection.execute("drop role without_rights")

    report = json.loads(output)
    (problem,) = report["problems"]
    assert (code, report["user"]) == (0, "without_rights")
    assert problem.startswith("user 'without_rights' cannot read the schema")
    assert "sluice_reader" in problem


def test_status_of_a_database_without_the_schema_names_the_command(database_18, run_as):
    with database_18.connect() as connection:
        connection.execute("drop schema pgmq, pgq, pgq_coop, sluice cascade")

    code, output, _ = run_as(database_18.url, "status", "--json")

    assert code == 0
    (problem,) = json.loads(output)["problems"]
    assert problem == "the schema is not installed; install it with: pgsluice schema install"


def test_status_shows_the_last_migration_of_each_schema(command):
    shown = command("status").stdout
    every = json.loads(command("status", "--json").stdout)["migrations"]

    last = [max(v for v in every if v.startswith(f"{name}/")) for name in ("pgmq", "pgq", "sluice")]
    assert all(version in shown for version in last)


def test_snapshot_of_a_table_that_is_missing_or_not_captured_names_a_hint(command, database_18):
    command("log", "create", "changes")
    with database_18.connect() as connection:
        connection.execute("create table account (id integer primary key)")

    missing = command("log", "snapshot", "changes", "acount", code=3).stderr
    uncaptured = command("log", "snapshot", "changes", "account", code=3).stderr

    assert (
        'relation "acount" does not exist; check the name, or write it with its schema' in missing
    )
    assert "capture it first: select sluice.capture('public.account', 'changes')" in uncaptured


def test_unknown_role_is_named_and_the_server_is_not_suspected(database_18, run_as):
    code, _, errors = run_as(as_user(database_18.url, "nosuchrole"), "queue", "list")

    assert code == 3
    assert 'role "nosuchrole" does not exist; check the user,' in errors


def test_value_of_a_log_setting_of_another_type_is_a_usage_error(command):
    command("log", "create", "changes")

    refused = command("log", "set", "changes", "ticker_max_lag=abc", code=2).stderr

    assert "ticker_max_lag: 'abc' is not a valid duration" in refused
    command("log", "set", "changes", "ticker_max_lag=5m")
    assert "0:05:00" in command("log", "show", "changes").stdout


def test_json_on_standard_input_that_is_deep_or_pretty_printed_is_refused(command):
    command("queue", "create", "orders")

    deep = command("queue", "send", "orders", stdin="[" * 5000 + "]" * 5000, code=3).stderr
    pretty = command("queue", "send", "orders", stdin='{\n  "a": 1\n}\n', code=3).stderr

    assert "nested too deeply" in deep
    assert "write one JSON value per line (jq -c .)" in pretty
    assert command("queue", "browse", "orders", "--count").stdout == "0\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "queue show nope",
        "queue list nope",
        "queue browse nope 1",
        "queue topics list nope",
        "queue replay orders 1 --into nope",
        "schedule create s --queue nope --interval 1h",
        "log consumers nope",
        "log show nope",
        "log consume nope c",
        "schedule create s --log nope --interval 1h",
    ],
)
def test_missing_queue_or_log_is_named_with_the_command_that_creates_it(command, arguments):
    command("queue", "create", "orders")
    command("queue", "send", "orders", "1")
    command("queue", "archive", "orders", "1")

    refused = command(*arguments.split(), code=3).stderr

    kind, group = ("event log", "log") if "log" in arguments else ("queue", "queue")
    assert refused == (
        f"pgsluice: {kind} 'nope' does not exist; create it with: pgsluice {group} create nope\n"
    )


def test_durations_have_one_form_in_every_command(command):
    command("queue", "create", "orders")
    command("queue", "create", "parts", "--partitioned", "--interval", "1d", "--retention", "4w")
    command("log", "create", "changes")

    for delay in ("60", "60s", "1m"):
        command("queue", "send", "orders", "1", "--delay", delay)
    assert command("queue", "read", "orders", "--vt", "5m").stdout == ""
    command("group", "create", "changes", "g", "lease=2h", "backoff_base=500ms")
    command("queue", "set", "orders", "backoff_base=1.5s", "backoff_max=1d")
    info = json.loads(command("group", "show", "changes", "g", "--json").stdout)
    options = json.loads(command("queue", "show", "orders", "--json").stdout)

    assert (info["lease_s"], info["backoff_base_s"]) == (7200.0, 0.5)
    assert (options["backoff_base_s"], options["backoff_max_s"]) == (1.5, 86400.0)


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        ("queue topics bind a.# nope", 3, "create it with: pgsluice queue create nope"),
        ("queue replay orders --continue 77", 2, "list the replays of the queue"),
        ("group create changes g lease=5m", 3, "change it with: pgsluice group set changes g"),
        ("group create changes h --start 9999", 3, "tick not found"),
        ("schedule run nope", 3, "pgsluice schedule list"),
    ],
)
def test_an_error_of_sql_names_the_command_and_no_function(command, arguments, code, hint):
    command("queue", "create", "orders")
    command("log", "create", "changes")
    command("group", "create", "changes", "g")

    done = command(*arguments.split(), code=code)

    assert hint in done.stderr
    for schema in ("pgmq.", "sluice."):
        assert schema not in done.stderr


def test_status_of_an_older_schema_names_the_upgrade(database_18, run_as):
    with database_18.connect() as connection:
        connection.execute("delete from sluice.migration where version = 'sluice/0000_baseline'")

    _, output, _ = run_as(database_18.url, "status", "--json")

    assert "pgsluice schema upgrade" in "".join(json.loads(output)["problems"])


def test_command_without_the_schema_names_the_installation_in_one_line(database_18, run_as):
    with database_18.connect() as connection:
        connection.execute("drop schema pgmq, pgq, pgq_coop, sluice cascade")

    maintained, _, errors = run_as(database_18.url, "maintain", "--once")
    uninstalled, _, refused = run_as(database_18.url, "schema", "uninstall", "--yes")

    assert (maintained, errors.count("\n")) == (3, 1)
    assert "install it with: pgsluice schema install" in errors
    assert uninstalled == 1
    assert "nothing was dropped" in refused
