"""Commands, run in the tests' own process: a process for each would take five times as long."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import pytest

from pgsluice.cli.main import main
from support.servers import Database

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(
    database_18: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run `pgsluice` on the test's own database; fail unless it exits with `code`."""

    def run(*arguments: str, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--dsn", database_18.url])
        captured = capsys.readouterr()
        done = subprocess.CompletedProcess(
            arguments, int(ended.value.code or 0), captured.out, captured.err
        )
        assert done.returncode == code, (
            f"{arguments}: {done.returncode}\n{captured.out}\n{captured.err}"
        )
        return done

    return run
