"""`pgsluice doctor`: check server, schema, queues and logs for known causes of trouble."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import click
from rich.text import Text

from pgsluice.cli.main import EXIT_DIFFERENCE, EXIT_ERROR
from pgsluice.cli.options import accepted_yes_option, dsn_option, json_option
from pgsluice.cli.printing import Terminal, echo, echo_json
from pgsluice.client.sentences import counted
from pgsluice.connection import connect, resolve
from pgsluice.ops.doctor import CHECKS, Finding, Repair, diagnose, problem_of, repair

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "unknown": "dim"}
_COMMANDS_MAX = 10


@click.command()
@click.option(
    "--fix",
    is_flag=True,
    help="Run the commands that concern pgsluice's own objects only and are idempotent and reversible, such as missing "
    "indexes, triggers, partitions and storage settings; print each.",
)
@accepted_yes_option
@json_option
@dsn_option
def doctor(fix: bool, as_json: bool, dsn: str | None) -> None:
    """Check server, schema, queues and logs for known causes of trouble.

    Prints for each check a status, what was found, why it matters, and the command that corrects it: SQL, or a command
    of pgsluice. Statuses: ok, warn, fail, and unknown if this role cannot see enough or the check needs more than 2
    seconds. Reads only, except with --fix. Needs the role sluice_monitor; sees all with sluice_admin and pg_monitor.

    Exits with 1 if a check fails; else with 3 if it cannot connect, or if more than a third of the checks are unknown;
    else with 0. Does not start a server.
    """
    target = resolve(dsn, start_embedded=False)
    open_one = partial(connect, target, autocommit=True, application_name="pgsluice doctor")
    with open_one() as connection:
        findings = list(diagnose(connection, reconnect=open_one))
        repairs = list(repair(connection, findings)) if fix and not connection.closed else []
        if repaired := {each.check for each in repairs}:
            again = {each.check: each for each in diagnose(connection, only=repaired)}
            findings = [again.get(each.check, each) for each in findings]
    where = f"{target.safe or 'libpq environment'} (from {target.source})"
    if as_json:
        report = {
            "target": where,
            "checks": [asdict(each) for each in findings],
            "repairs": [asdict(each) for each in repairs],
        }
        echo_json(report)
    else:
        _print(where, findings, repairs)
    if any(each.status == "fail" for each in findings):
        sys.exit(EXIT_DIFFERENCE)
    if problem := problem_of(findings):
        echo(problem, err=True)
        sys.exit(EXIT_ERROR)


def _print(where: str, findings: Sequence[Finding], repairs: Sequence[Repair]) -> None:
    console = Terminal(soft_wrap=True, highlight=False)
    console.say(where)
    width = max(len(check.name) for check in CHECKS)
    for each in repairs:
        outcome = "ran" if each.error is None else "failed"
        reason = "" if each.error is None else f": {each.error}"
        console.say(f"{outcome}  {each.command}{reason}")
    for finding in findings:
        status = Text(f"{finding.status:<8}", _STYLES[finding.status])
        console.say(status, f"{finding.check:<{width}}  {finding.what}")
        if finding.status in ("warn", "fail"):
            console.say(f"          why: {finding.why}")
        for command in finding.commands[:_COMMANDS_MAX]:
            console.say(f"          fix: {command}")
        if (more := len(finding.commands) - _COMMANDS_MAX) > 0:
            console.say(f"          {counted(more, 'more command')}; --json prints all")
    counts = Counter(str(each.status) for each in findings)
    console.say(", ".join(f"{counts[status]} {status}" for status in _STYLES))
