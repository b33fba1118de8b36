"""No command prints a control character, or a line, that a name, payload, error or setting of others contains."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import click
import pytest

from pgsluice.cli.main import cli, main

# ESC, BEL, a line that looks like one of doctor, a change of direction, C1, and a character without width.
EVIL = "ev\x1b[2J\x07\nok   everything\u202eil\x9b\u200b"
# Queues with control characters are refused, other names are not.
QUEUE = "evil everything\u202eil\u200b"
GROUP = f"{EVIL} group"
ADDRESS = {
    "QUEUE": QUEUE, "LOG": EVIL, "CONSUMER": EVIL, "GROUP": GROUP, "KEY": EVIL, "NAME": EVIL, "EXPORT": EVIL,
    "STREAM": EVIL, "PATTERN": f"a.{EVIL}", "ROUTING_KEY": f"b.{EVIL}", "TABLE": f'public."{EVIL}"', "QUEUE|LOG": EVIL,
    "MSG_ID": "1", "EV_ID": "1", "ID": "1", "JSON": json.dumps(EVIL), "DATA": EVIL, "NAME=VALUE": f"pause_reason={EVIL}",
    "MODULE:APP": f"{EVIL}:app",
}  # fmt: skip
OPTIONS = {
    "maintain": ["--once"],
    "queue tail": ["--until-empty", "--after", "0"],
    "log consume": ["--register"],
    "schedule create": ["--interval", "1h", "--queue", QUEUE],
}
# The options differ by object.
SETTINGS = {
    "log set": f"keepers={EVIL}",
    "group create": "lease=1m",
    "group set": "lease=1m",
    "schedule set": "paused=true",
}
# They print nothing of a database, start a server, run until stopped, or need the tables of a lake.
LEFT_OUT = re.compile(
    r"demo|embedded|lake|pipeline (run|verify)|worker (run|child)|dashboard|notify|schema (adopt|install|uninstall|upgrade)"
)
# They change or remove what others print.
LAST = re.compile(
    r".* (drop|purge|release|delete|pop|archive|unpark|unregister|unbind|redrive)(-\w+)?"
)


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        whole = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from commands(command, whole)
        else:
            yield whole, command


def arguments(command: click.Command, name: str) -> list[str]:
    """Return a hostile text or an id for each argument of a command."""
    context = click.Context(command)
    metavars = [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
    address = ADDRESS | ({"NAME=VALUE": SETTINGS[name]} if name in SETTINGS else {})
    return [address.get(m.strip("[].").removesuffix("..."), EVIL) for m in metavars]


@pytest.fixture
def evil_database(database_18) -> str:
    """A database in which every name and text is hostile."""
    with database_18.connect() as c:
        named = f"evil {EVIL}"[:60]
        c.execute("select set_config('application_name', %s, false)", [named])
        c.execute("select pgmq.create(%s)", [QUEUE])
        payload = json.dumps({"text": EVIL, EVIL: EVIL})
        for _ in range(4):
            c.execute("select pgmq.send(%s, %s::jsonb, %s::jsonb)", [QUEUE, payload, payload])
        c.execute("select pgmq.read(%s, 60, 2)", [QUEUE])
        c.execute("select pgmq.archive(%s, 4)", [QUEUE])
        c.execute(
            "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, headers, reason, error, "
            "attempts, error_type, trace, worker) select %s, 99, 1, now(), %s, %s, 'rejected', %s, 1, %s, %s, %s",
            [QUEUE, payload, payload, EVIL, EVIL, EVIL, EVIL],
        )
        c.execute(
            "insert into sluice.attempt (queue_name, msg_id, enqueued_at, read_ct, claimed_at, state, attempts, "
            "first_failed_at, last_failed_at, error_type, error, trace, worker, check_at) "
            "select %s, m.msg_id, m.enqueued_at, m.read_ct, now(), 'failed', 1, now(), now(), %s, %s, %s, %s, now() "
            "from pgmq.read(%s, 60, 1) as m",
            [QUEUE, EVIL, EVIL, EVIL, EVIL, QUEUE],
        )
        c.execute(
            "select sluice.set_queue_options(%s, %s)",
            [
                QUEUE,
                json.dumps(
                    {
                        "paused": True, "pause_reason": EVIL, "max_attempts": 2, "backoff": "constant",
                        "backoff_base": "10 minutes", "fleet_concurrency": 3, "key_concurrency": 1,
                    }
                ),
            ],
        )  # fmt: skip
        c.execute("update sluice.queue_settings set paused_by = %s, limits_by = %s", [EVIL, EVIL])
        c.execute("select pgmq.bind_topic(%s, %s)", ["a.b", QUEUE])
        c.execute("select sluice.create_export(%s, %s, %s, 'id')", [QUEUE, EVIL, EVIL])
        c.execute(
            "select sluice.schedule(%s, %s, %s::jsonb, every => interval '1 hour')",
            [EVIL, QUEUE, payload],
        )
        c.execute("update sluice.schedule set error = %s, declared_by = %s", [EVIL, EVIL])
        c.execute("select pgq.create_queue(%s), pgq.register_consumer(%s, %s)", [EVIL, EVIL, EVIL])
        c.execute("select sluice.create_group(%s, %s, '{}'::jsonb)", [EVIL, GROUP])
        c.execute("select pgq.insert_event(%s, %s, %s, %s, %s, %s, %s)", [EVIL] * 7)
        c.execute("select pgq.force_tick(%s), pgq.ticker(%s)", [EVIL, EVIL])
        c.execute("update pgq.queue set queue_extra_maint = array[%s]", [EVIL])
        c.execute("select sluice.hold_pipeline(%s, %s, %s, %s, 1)", [EVIL, EVIL, EVIL, EVIL])
        c.execute(
            "select sluice.report_worker(%s, %s, %s, 1, %s, array[%s], 1, interval '1 minute', '[]', '{}', null)",
            [EVIL] * 5,
        )
        for task in ("tick", "retention"):
            c.execute("select sluice._note_failure(%s, %s, null, %s)", [task, QUEUE, EVIL])
        c.execute(f'create table "{EVIL}" (id integer primary key)')
        c.execute("select sluice.capture(%s::regclass, %s)", [f'"{EVIL}"', EVIL])
        c.execute("select sluice.note_action('purge', %s, '{}', 1, %s)", [QUEUE, EVIL])
    return database_18.url


def run(capfd: pytest.CaptureFixture[str], words: list[str]) -> tuple[str, str]:
    with pytest.raises(SystemExit):
        main(words)
    return capfd.readouterr()


def wrong(text: str) -> list[str]:
    """Return the lines of an output that have a control character, or are those of the hostile text."""
    return [
        line
        for line in text.split("\n")
        if not line.isprintable() or line.lstrip().startswith("ok   everything")
    ]


@pytest.fixture
def shards_file(evil_database, tmp_path) -> str:
    """A file of one shard, whose only pin is of a hostile key."""
    path = tmp_path / "shards.toml"
    lines = ("[shards]", f"a = {{ dsn = {json.dumps(evil_database)} }}", "[pins]")
    path.write_text("\n".join([*lines, f'{json.dumps(EVIL)} = "a"']), encoding="utf-8")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True])
def test_no_command_prints_what_a_terminal_acts_upon(
    evil_database, shards_file, capfd, monkeypatch, as_json
):
    monkeypatch.setenv("PGSLUICE_DSN", evil_database)
    monkeypatch.setenv("COLUMNS", "200")
    tried = shown = 0
    refused: list[tuple[str, str]] = []
    every = [(name, command) for name, command in commands(cli) if not LEFT_OUT.match(name)]
    for name, command in sorted(every, key=lambda each: bool(LAST.fullmatch(each[0]))):
        flags = {flag for p in command.params for flag in p.opts}
        if as_json and "--json" not in flags:
            continue
        options = [*OPTIONS.get(name, []), *(["--yes"] if "--yes" in flags else [])]
        options += ["--shards", shards_file] if name.startswith("shards ") else []
        options += ["--json"] if as_json else []

        out, err = run(capfd, [*name.split(), *options, "--", *arguments(command, name)])

        assert wrong(out) == [], name
        assert wrong(err) == [], name
        assert "Traceback" not in err, (name, err)
        refused += [(name, err)] if "Usage:" in err else []
        for line in out.splitlines() if as_json else ():
            json.loads(line)
        tried += 1
        shown += "everything" in out or "everything" in err
    assert refused == [], "\n".join(f"{n}: {e}" for n, e in refused)
    assert tried > (25 if as_json else 55)
    assert shown > tried / 2  # most print the names at least


def test_the_json_of_a_hostile_text_is_that_text(evil_database, capfd):
    out, _ = run(capfd, ["queue", "browse", "--dsn", evil_database, "--", QUEUE])

    assert json.loads(out.splitlines()[0])["message"] == {"text": EVIL, EVIL: EVIL}
    assert out.isprintable() or out.replace("\n", "").isprintable()


def test_only_one_module_of_the_command_line_writes_to_the_terminal():
    from pathlib import Path

    import pgsluice.cli

    for file in Path(pgsluice.cli.__file__).parent.glob("*.py"):
        if file.name != "printing.py":
            found = re.findall(r"click\.s?echo\(|(?<![\w.])print\(|rich\.console", file.read_text())
            assert found == [], file.name
