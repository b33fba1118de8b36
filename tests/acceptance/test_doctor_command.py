"""`pgsluice doctor` as a user runs it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pgsluice.cli.main import main
from pgsluice.ops.doctor import CHECKS
from support import value


def test_healthy_database_has_no_warning(command):
    done = command("doctor")

    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:-1]] == [["ok", check.name] for check in CHECKS]
    assert lines[-1] == f"{len(CHECKS)} ok, 0 warn, 0 fail, 0 unknown"


def test_warning_has_reason_and_fix_and_exits_with_0(command, database_18):
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('orders'), pgmq.enable_notify_insert('orders')")
        connection.execute("drop trigger trigger_notify_queue_insert_listeners on pgmq.q_orders")

        done = command("doctor")
        [at] = [n for n, line in enumerate(done.stdout.splitlines()) if line.startswith("warn")]
        assert done.stdout.splitlines()[at : at + 3] == [
            "warn    notify_triggers        queue 'orders' has notifications enabled, and no trigger that sends them",
            "          why: listeners receive no notification, and poll instead",
            "          fix: select pgmq.enable_notify_insert('orders', 250)",
        ]
        [found] = [
            each
            for each in json.loads(command("doctor", "--json").stdout)["checks"]
            if each["status"] != "ok"
        ]
        assert found["check"] == "notify_triggers"
        assert found["commands"] == ["select pgmq.enable_notify_insert('orders', 250)"]
        assert found["is_fixable"] is True

        fixed = command("doctor", "--fix")
        assert "ran  select pgmq.enable_notify_insert('orders', 250)" in fixed.stdout.splitlines()
        assert fixed.stdout.splitlines()[-1].endswith("0 warn, 0 fail, 0 unknown")
        assert value(
            connection, "select count(*) from pg_trigger where tgrelid = 'pgmq.q_orders'::regclass"
        )
        assert json.loads(command("doctor", "--fix", "--json").stdout)["repairs"] == []


def test_fix_does_not_run_what_concerns_others(command, database_18):
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        connection.execute("drop table pgmq.q_orders")
        before = value(connection, "select count(*) from pgmq.meta")

        done = command("doctor", "--fix", code=1)

        assert "fail    objects" in done.stdout
        assert value(connection, "select count(*) from pgmq.meta") == before


def test_missing_schema_exits_with_1(empty_database, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--dsn", empty_database.url])

    assert ended.value.code == 1
    assert "fix: pgsluice schema install" in capsys.readouterr().out


def test_unreachable_server_exits_with_3_and_shows_no_password(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--dsn", "postgresql://me:secret@127.0.0.1:1/shop"])

    assert ended.value.code == 3
    assert "secret" not in capsys.readouterr().err


def test_exits_with_3_if_most_checks_could_not_look(command, database_18):
    with database_18.connect() as connection:
        connection.execute("create role doctor_blind login")
        try:
            url = database_18.url.replace("postgres@", "doctor_blind@")
            with pytest.raises(SystemExit) as ended:
                main(["doctor", "--dsn", url])
        finally:
            connection.execute("drop role doctor_blind")

    assert ended.value.code == 3


def test_exits_with_3_if_the_session_is_lost(command, database_18, monkeypatch, capsys):
    def lost(probe):
        probe.connection.close()
        return []

    monkeypatch.setattr(
        "pgsluice.ops.doctor.diagnosis.CHECKS",
        tuple(replace(each, look=lost) if each.name == "clock" else each for each in CHECKS),
    )

    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--dsn", database_18.url])

    assert ended.value.code == 3
    assert "checks could not look" in capsys.readouterr().err
