"""The doctor, on the database of a test."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import psycopg
import pytest

from pgsluice.cli.main import main
from pgsluice.ops.doctor import IN_EXPLAIN, Finding, Thresholds, diagnose, repair, server_facts

QUIET = ("ok", ())


def seen(finding: Finding) -> tuple[str, tuple[str, ...]]:
    """Return the status and the commands of a finding."""
    return finding.status, finding.commands


@dataclass
class Doctor:
    """Runs checks on a database."""

    url: str

    def finding(self, check: str, *, url: str = "", **thresholds: float) -> Finding:
        """Return the finding of one check; `explain` names the same, if the check is one of its own."""
        for is_last in (False, True):
            with psycopg.connect(url or self.url, autocommit=True) as connection:
                options = {
                    "thresholds": Thresholds(**thresholds),
                    "reconnect": lambda: psycopg.connect(url or self.url, autocommit=True),
                }
                [found] = diagnose(connection, only=[check], **options)
                if check not in IN_EXPLAIN:
                    break
                facts = server_facts(connection, checks=[check], **options)
            named = [(fact.cause, fact.detail["status"]) for fact in facts]
            expected = [(check, found.status)] if found.status in ("warn", "fail") else []
            if named == expected:
                break
            # The state may have changed between the two.
            assert not is_last, f"explain names {named}, doctor {expected}"
        assert found.why
        return found

    def statuses(self, **thresholds: float) -> dict[str, str]:
        """Return the status of every check."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return {
                each.check: each.status
                for each in diagnose(connection, thresholds=Thresholds(**thresholds))
            }

    def run(self, finding: Finding) -> None:
        """Run the commands of a finding, as its reader would."""
        assert finding.commands
        for command in finding.commands:
            if command.startswith("pgsluice "):
                confirmed = ["--yes"] if {"unregister", "drop"} & set(command.split()) else []
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
