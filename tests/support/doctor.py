"""The doctor, on the database of a test."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import psycopg
import pytest

from pgsluice.cli.main import main
from pgsluice.ops.doctor import Finding, Limits, diagnose, repair

QUIET = ("ok", ())


def seen(finding: Finding) -> tuple[str, tuple[str, ...]]:
    """Return the status and the commands of a finding."""
    return finding.status, finding.commands


@dataclass
class Doctor:
    """Runs checks on a database."""

    url: str

    def finding(self, check: str, *, url: str = "", **limits: float) -> Finding:
        """Return the finding of one check."""
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            [found] = diagnose(
                connection,
                only=[check],
                limits=Limits(**limits),
                reconnect=lambda: psycopg.connect(url or self.url, autocommit=True),
            )
        assert found.why
        return found

    def statuses(self, **limits: float) -> dict[str, str]:
        """Return the status of every check."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return {
                each.check: each.status for each in diagnose(connection, limits=Limits(**limits))
            }

    def run(self, finding: Finding) -> None:
        """Run the commands of a finding, as its reader would."""
        assert finding.commands
        for command in finding.commands:
            if command.startswith("pgsluice "):
                confirmed = (
                    ["--yes"] if {"unregister", "drop", "retention"} & set(command.split()) else []
                )
                with pytest.raises(SystemExit) as ended:
                    main([*shlex.split(command)[1:], *confirmed, "--dsn", self.url])
                assert ended.value.code in (0, None)
            else:
                with psycopg.connect(self.url, autocommit=True) as connection:
                    for statement in command.split("; "):  # as psql sends them
                        connection.execute(statement.encode())

    def repair(self, finding: Finding) -> list[str]:
        """Let the doctor run the commands of a finding; return them."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            done = list(repair(connection, [finding]))
        assert [each.error for each in done] == [None] * len(done)
        return [each.command for each in done]
