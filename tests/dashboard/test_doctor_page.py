"""The page of doctor: all findings by status, with their commands."""

from __future__ import annotations

import threading

import psycopg
import pytest

from pgsluice.connection import resolve
from pgsluice.dashboard import diagnosis
from pgsluice.ops.doctor import Finding
from support import wait_until
from support.proxy import BlackHole

FOUND = "In order"


def test_findings_are_grouped_by_status_with_commands_to_copy(client, work):
    work.create("held")
    work.send("held", 1)
    work.set_queue_options("held", paused=True, pause_reason="<script>alert(1)</script>")

    assert client.get("/doctor").status_code == 200
    wait_until(lambda: FOUND in client.get("/doctor").text, "the checks to end")
    text = client.get("/doctor").text

    assert text.index("<h2>Warnings</h2>") < text.index(f"<h2>{FOUND}</h2>")
    assert 'data-copy="pgsluice queue set held paused=false"' in text
    assert "<script>alert" not in text


def test_findings_from_before_an_act_or_an_earlier_visit_are_not_shown(database_18, monkeypatch):
    found, go = [], threading.Event()

    def diagnose(*_args, **_options):
        go.wait(10)
        found.append(len(found))
        return [Finding("clock", "ok", str(found[-1]), "")]

    monkeypatch.setattr(diagnosis, "diagnose", diagnose)
    runs = diagnosis.Diagnoses(resolve(database_18.url), every_s=60)

    def latest():
        now = runs.latest()
        return now and now.findings[0].what

    go.set()
    wait_until(lambda: latest() == "0", "the first run")
    go.clear()
    runs.forget()
    assert latest() is None
    runs.forget()  # while the second run looks
    go.set()
    wait_until(lambda: latest() == "2", "a run that began after the last act")

    runs = diagnosis.Diagnoses(resolve(database_18.url), every_s=0.1)
    wait_until(lambda: latest() == "3", "the first run of another process")
    go.clear()
    wait_until(lambda: latest() is None, "the findings to be outdated while the next run looks")
    go.set()
    wait_until(lambda: latest() not in (None, "3"), "the next run")


def test_role_with_sluice_monitor_sees_findings(monitor):
    wait_until(lambda: FOUND in monitor.get("/doctor").text, "the checks to end")


def test_checks_that_could_not_look_are_no_diagnosis(client, monkeypatch):
    findings = [Finding("clock", status, "", "") for status in ("ok", "unknown", "unknown")]
    monkeypatch.setattr(diagnosis, "diagnose", lambda *_args, **_options: findings)

    assert client.get("/").status_code == 200
    wait_until(lambda: "could not look" in client.get("/").text, "the checks to end")

    assert "2 of 3 checks could not look" in client.get("/doctor").text
    assert "No check warns" not in client.get("/").text


def test_checks_of_a_silent_server_end(database_18, monkeypatch):
    monkeypatch.setattr(diagnosis, "_RUN_MAX_S", 0.5)
    there = psycopg.conninfo.conninfo_to_dict(database_18.url)
    with BlackHole(f"{there['host']}/.s.PGSQL.{there['port']}") as proxy:

        def be_silent(connection, **_options):
            proxy.swallow()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
            return ()

        monkeypatch.setattr(diagnosis, "diagnose", be_silent)
        far = psycopg.conninfo.make_conninfo(database_18.url, host="127.0.0.1", port=proxy.port)
        runs = diagnosis.Diagnoses(resolve(far))
        wait_until(lambda: runs.latest() is not None, "the checks to end", 10)
