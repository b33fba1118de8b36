"""Commands as a shell runs them, in the process of the tests: one of its own needs five times as long."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import pytest

from conftest import Database
from pgsluice.cli.main import main

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(
    database_18: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run `pgsluice` with arguments on a database of the test's own; the exit code must be the one named."""

    def run(*arguments: str, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--dsn", database_18.url])
        said = capsys.readouterr()
        done = subprocess.CompletedProcess(
            arguments, int(ended.value.code or 0), said.out, said.err
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{said.out}\n{said.err}"
        return done

    return run
