"""`pgsluice doctor`: check server, schema, queues and logs for known causes of trouble."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

import click
from rich.text import Text

from pgsluice.cli.each_shard import errors_of, exit_if_down, of_each
from pgsluice.cli.failures import hint
from pgsluice.cli.main import EXIT_DIFFERENCE, EXIT_ERROR
from pgsluice.cli.options import accepted_yes_option, dsn_or_shards_option, json_option
from pgsluice.cli.printing import Terminal, echo, echo_json
from pgsluice.client.sentences import counted
from pgsluice.connection import Target, connect, resolve
from pgsluice.errors import SluiceError
from pgsluice.ops.doctor import CHECKS, Finding, Repair, diagnose, problem_of, repair
from pgsluice.shards import Shards

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
@dsn_or_shards_option
def doctor(fix: bool, as_json: bool, dsn: str | None, shards: Shards | None) -> None:
    """Check server, schema, queues and logs for known causes of trouble.

    Prints for each check a status, what was found, why it matters, and the command that corrects it: SQL, or a command
    of pgsluice. Statuses: ok, warn, fail, and unknown if this role cannot see enough or the check needs more than 2
    seconds. Reads only, except with --fix. Needs the role sluice_monitor; sees all with sluice_admin and pg_monitor.
    With --shards and without --shard it checks each shard.

    Exits with 1 if a check fails; else with 3 if it cannot connect, or if more than a third of the checks are unknown;
    else with 0. Does not start a server.
    """
    if shards is None:
        found: list[tuple[str, _Checked | SluiceError]] = [
            ("", _checked(resolve(dsn, start_embedded=False), fix=fix))
        ]
    else:
        found = of_each(shards, partial(_checked, fix=fix))
    reports = []
    for name, one in found:
        prefix = {"shard": name} if name else {}
        if isinstance(one, SluiceError):
            reports.append({**prefix, "error": hint(one)})
        else:
            reports.append({**prefix, **asdict(one)})
        if not as_json:
            _print_one(name, one)
    if as_json:
        echo_json(reports[0] if shards is None else reports)
    checked = [one for _, one in found if not isinstance(one, SluiceError)]
    if any(each.status == "fail" for one in checked for each in one.checks):
        sys.exit(EXIT_DIFFERENCE)
    problems = [problem for one in checked if (problem := problem_of(one.checks))]
    for problem in problems:
        echo(problem, err=True)
    exit_if_down(errors_of(found))
    if problems:
        sys.exit(EXIT_ERROR)


@dataclass(frozen=True)
class _Checked:
    target: str
    checks: list[Finding]
    repairs: list[Repair]


def _checked(target: Target, *, fix: bool) -> _Checked:
    open_one = partial(connect, target, autocommit=True, application_name="pgsluice doctor")
    with open_one() as connection:
        findings = list(diagnose(connection, reconnect=open_one))
        repairs = list(repair(connection, findings)) if fix and not connection.closed else []
        if repaired := {each.check for each in repairs}:
            again = {each.check: each for each in diagnose(connection, only=repaired)}
            findings = [again.get(each.check, each) for each in findings]
    where = f"{target.safe or 'libpq environment'} (from {target.source})"
    return _Checked(where, findings, repairs)


def _print_one(shard_name: str, one: _Checked | SluiceError) -> None:
    if isinstance(one, SluiceError):
        echo(f"shard {shard_name}: down")
    else:
        _print(one.target, one.checks, one.repairs)


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
