"""The page of doctor: all findings by status, with their commands."""

from __future__ import annotations

from support import wait_until

FOUND = "In order"


def test_findings_are_grouped_by_status_with_commands_to_copy(client, work):
    work.create("held")
    work.send("held", 1)
    work.pause_queue("held", reason="<script>alert(1)</script>")

    assert client.get("/doctor").status_code == 200
    wait_until(lambda: FOUND in client.get("/doctor").text, "the checks to end")
    text = client.get("/doctor").text

    assert text.index("<h2>Warnings</h2>") < text.index(f"<h2>{FOUND}</h2>")
    assert 'data-copy="pgsluice queue resume held"' in text
    assert "<script>alert" not in text


def test_role_with_sluice_monitor_sees_findings(monitor):
    wait_until(lambda: FOUND in monitor.get("/doctor").text, "the checks to end")
