"""Invalid command lines: exit code 2 or 3, one message, no traceback and no connection."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click
import pytest

from pgsluice.cli.main import cli, main
from pgsluice.connection import resolve
from pgsluice.errors import ConfigurationError

NO_SERVER = "postgresql://user@127.0.0.1:1/none"
# Arguments → a part of the message.
USAGE = {
    "queu": "Did you mean 'queue'?",
    "teleport": "No such command 'teleport'",
    "--verison": "Did you mean '--version'?",
    "queue creat q": "Did you mean",
    "queue sett q": "Did you mean 'set'?",
    "queue dead-letters list q": "No such command 'dead-letters'",
    "dead-letters lst q": "Did you mean 'list'?",
    "queue drop q --ye": "'--yes'",
    "schedule creat s": "Did you mean 'create'?",
    "log unregistr l c": "Did you mean 'unregister'?",
    "group crate l g": "Did you mean 'create'?",
    "worker chek a:b": "Did you mean 'check'?",
    "embedded strt": "Did you mean",
    "pipeline run evnts --log l": "Did you mean 'events'?",
    "pipeline run teleport": "The kinds are events,",
    "pipeline verify archiv": "Did you mean 'archive'?",
    "lake compct x": "Did you mean 'compact'?",
    "maintain --interva 1s": "Did you mean",
    "demo --client 2": "--clients",
    "status --jsn": "'--json'",
    "schema instal": "Did you mean",
    # Durations
    "queue send q 1 --delay soon": "'soon' is not a valid duration",
    "queue send q 1 --delay -5": "'-5' is not a valid duration",
    "queue send q 1 --delay 1.5": "not a whole number of seconds",
    "queue read q --vt 5x": "'5x' is not a valid duration",
    "queue read q --vt 999999999w": "is too long",
    "queue tail q --poll-interval 0": "is too short",
    "queue set q archive_retention=3x": "is not a valid duration",
    "queue create q --partitioned --interval abc": "'abc' is not a partition size",
    "queue create q --partitioned --retention later": "'later' is not a partition size",
    "queue create q --partitioned --interval 0": "'0' is not a partition size",
    "queue create q --partitioned --interval 1d": "must both be numbers of messages, or both durations",
    "queue create q --interval 1d": "require --partitioned",
    "queue set q backoff_base=forever": "is not a valid duration",
    "queue set q rate=x/s": "is not a valid integer",
    "queue set q rate=5/x": "is not a valid duration",
    "queue set q priority_weights=1;2": "is not a valid integer",
    "queue set q rat=5": "Did you mean 'rate'",
    "queue set q rate": "write NAME=VALUE",
    "queue set q": "Missing argument 'NAME=VALUE...'",
    "dead-letters purge q --older-than forever --yes": "is not a valid duration",
    "group create l g lease=abc": "is not a valid duration",
    "group create l g --start yesterday": "is not a valid start",
    "schedule create s --queue q --interval 0": "is too short",
    "worker run a:b --lease 1s": "more than 1s",
    "worker run a:b --shutdown-timeout 0": "is too short",
    "maintain --tick-interval-min 2s": "is greater than --tick-interval-max",
    "notify --heartbeat-interval 0s": "is too short",
    "pipeline run ingest f --queue q --interval 0": "is too short",
    "lake vacuum t --retention 30m": "at least 3600s",
    "schema adopt --lock-timeout 1y": "is not a valid duration",
    "demo --duration 1.5s": "not a whole number",
    # Times, JSON, ids
    "queue browse q --since soon": "is not a valid time",
    "pipeline run analytics --gold g --since soon": "is not a valid time",
    "queue browse q --count --conditional {": "is not JSON",
    "queue read q --conditional {": "is not JSON",
    "queue send q 1 --headers [1]": "is not a JSON object",
    "schedule create s --queue q --interval 1h --message {": "is not JSON",
    "queue browse q archive": "'archive' is not a msg_id; use --in archive",
    "queue archive q one": "is not a valid integer",
    "queue read q --qty 0": "is not in the range",
    # Missing and mutually exclusive arguments
    "queue create": "Missing argument 'QUEUE'",
    "queue delete q": "give one of: ids, --all",
    "queue delete q 1 --all --yes": "give one of: ids, --all",
    "queue replay q": "give one of",
    "queue replay q 1 --all": "give one of",
    "queue replay q --continue 1 --into r": "mutually exclusive",
    "dead-letters redrive q": "give one of",
    "dead-letters redrive q 1 --rate 5": "--rate requires",
    "dead-letters list q --count --qty 1": "mutually exclusive",
    "dead-letters purge q --yes": "give one of",
    "log consume l c --follow --batches 1": "mutually exclusive",
    "log set l foo=1": "No such option 'foo'",
    "log set l ticker_max_lg=1s": "Did you mean 'ticker_max_lag'?",
    "log set l ticker_max_lag": "write NAME=VALUE",
    "group set l g": "give NAME=VALUE or --forget",
    "schedule create s --interval 1h": "exactly one of --queue and --log",
    "schedule create s --queue q": "exactly one of --cron and --interval",
    "schedule create s --log l --interval 1h --message 1": "require --queue",
    "schedule create s --queue q --interval 1h --ev-type t": "require --log",
    "pipeline run ingest f": "exactly one of --queue and --log",
    "pipeline run replay --lake t --name n --queue q --log l": "exactly one of --queue and --log",
    "pipeline run events --lake t": "Missing option '--log'",
    "pipeline run events --log l --lake t --checkpoint c --shard a": "NAME=DSN",
    "pipeline run changes --log l --lake t --checkpoint c --buckets a": "write schema.table=64",
    "pipeline run changes --log l --lake t --checkpoint c --column-types s.t.c": "has no type",
    "schema install --tables-only --with legacy": "mutually exclusive",
    "worker run a.py:app": 'pass the module, without ".py": a:app',
    "worker check shop/tasks.py": "shop.tasks:app",
    "worker run a:b --queues ,": "give at least one name",
    # Destructive commands, which require --yes without a terminal
    "embedded stop --data nosuchfolder": "there is no server in",
    "schedule create s --queue q --interval 1h --time-zone UTC": "--time-zone requires --cron",
    "queue browse q --since 2026-01-02 --until 2026-01-01": "--since must be before --until",
    "log set l ticker_max_lag=-5s": "ticker_max_lag: '-5s' is not a valid duration",
    "queue delete q --all": "--yes",
    "queue drop q": "--yes",
    "dead-letters purge q 1": "--yes",
    "queue drop-export q e": "--yes",
    "dead-letters purge l --consumer g 1": "--yes",
    "group drop l g": "--yes",
    "log drop l": "--yes",
    "log unregister l c": "--yes",
    "schedule drop s": "--yes",
    "schema uninstall": "--yes",
    "lake vacuum t": "--yes",
    # Connection
    "status --dsn postgresql+psycopg://me:secret@host/shop": 'remove "+psycopg"',
    "queue list --dsn postgres+asyncpg://host/shop": 'remove "+asyncpg"',
}
CANNOT_RUN = {
    "status": "cannot connect",
    "queue list": "cannot connect",
    "log list": "cannot connect",
    "group list": "cannot connect",
    "schedule list": "cannot connect",
    "maintain --once": "cannot connect",
    "notify": "cannot connect",
    "schema verify": "cannot connect",
    "status --dsn not-a-dsn": "cannot be parsed",
    "status --dsn mysql://me:secret@host/shop": "has the scheme mysql",
    "worker check nosuchmodule:app": "nosuchmodule",
    "pipeline run all --config nosuchfile.toml --once": "nosuchfile.toml",
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Run a command line in this process; return its exit code and standard error."""

    def run(*arguments: str, answer: str | None = None) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO() if answer is None else Terminal(answer))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PGSLUICE_DSN", NO_SERVER)
        monkeypatch.setenv("PGSLUICE_HOME", str(tmp_path))
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return int(ended.value.code or 0), printed.err

    return run


@pytest.mark.parametrize(("line", "words"), USAGE.items(), ids=USAGE.keys())
def test_wrong_usage_exits_with_2_and_one_message(run, line, words):
    code, output = run(*line.split())

    assert code == 2, output
    *_, message = output.strip().splitlines()
    assert message.startswith("Error: ")
    assert words in message
    assert "secret" not in output


@pytest.mark.parametrize(("line", "words"), CANNOT_RUN.items(), ids=CANNOT_RUN.keys())
def test_command_that_cannot_run_exits_with_3_and_one_line(run, line, words):
    code, output = run(*line.split())

    assert code == 3, output
    (message,) = output.strip().splitlines()
    assert words in message


@pytest.mark.parametrize("name", ["PGSLUICE_DSN", "DATABASE_URL"])
def test_sqlalchemy_url_in_the_environment_is_refused_without_its_password(name):
    with pytest.raises(ConfigurationError, match=f'from {name} .* remove "[+]psycopg"') as refused:
        resolve(environ={name: "postgresql+psycopg://me:secret@host/shop"})

    assert "secret" not in str(refused.value)


def commands(command: click.Command, path: tuple[str, ...] = ()):
    if not isinstance(command, click.Group):
        yield path
        return
    for name in command.list_commands(click.Context(command)):
        below = command.get_command(click.Context(command), name)
        if below is not None and not below.hidden:
            yield from commands(below, (*path, name))


@pytest.mark.parametrize("path", list(commands(cli)), ids=" ".join)
def test_every_command_refuses_an_unknown_option_with_2(run, path):
    code, output = run(*path, "--no-such-option")

    assert code == (3 if path == ("embedded", "psql") else 2), output


def test_deeply_nested_json_is_refused(run):
    code, output = run("queue", "read", "q", "--conditional", "[" * 5000 + "]" * 5000)

    assert (code, "nested too deeply" in output) == (2, True)


def test_prompt_on_a_terminal_is_answered(run):
    assert run("schema", "uninstall", answer="n\n")[0] == 1
    code, output = run("schema", "uninstall", answer="y\n")

    assert (code, "cannot connect" in output) == (3, True)


def test_interrupted_command_exits_with_130(run, monkeypatch):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pgsluice.cli.clients.connect", interrupt)

    assert run("queue", "list") == (130, "\ninterrupted\n")


def test_a_traceback_has_no_control_characters_and_forges_no_line(capsys, monkeypatch):
    monkeypatch.setattr("sys.excepthook", None)
    monkeypatch.setattr("pgsluice.cli.main.cli.main", lambda **_: 0)
    with pytest.raises(SystemExit):
        main([])
    error = RuntimeError("\x1b[2J\nok   everything\u202e")

    sys.excepthook(type(error), error, None)

    first, *further = capsys.readouterr().err.splitlines()
    assert first == "RuntimeError: \\x1b[2J"
    assert further == ["    ok   everything\\u202e"]
