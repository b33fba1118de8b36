"""The units of examples/systemd: systemd accepts them, their times fit, and their commands run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pgsluice.durations import parse_duration
from support import wait_until
from support.http_answers import status_of
from support.object_store import free_port
from support.processes import environment
from tidy.test_docs_name_real_things import unknown_in_command

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "systemd"
PAGE = ROOT / "docs" / "guides" / "systemd.md"
PROGRAM = "/srv/shop/.venv/bin/pgsluice"
HARD_STOP_S = 6
OPEN_PAGES_S = 15


@pytest.fixture
def units():
    """The settings of each unit by its name; the last of those that are given twice."""
    return {
        path.stem.removeprefix("shop-"): dict(
            re.findall(r"^(\w+)=(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        )
        for path in EXAMPLE.glob("*.service")
    }


def command_of(unit):
    program, *arguments = shlex.split(unit["ExecStart"])
    assert program == PROGRAM
    return arguments


def test_commands_and_options_exist(units):
    assert {*units} == {"worker", "maintenance", "dashboard"}
    for unit in units.values():
        assert unknown_in_command(command_of(unit)) is None


def test_units_that_systemd_cannot_supervise_by_notifications_do_not_ask_for_them(units):
    for unit in units.values():
        assert unit["Type"] == "exec"
        assert "WatchdogSec" not in unit
    sources = (ROOT / "src").rglob("*.py")
    assert not [path for path in sources if "NOTIFY_SOCKET" in path.read_text(encoding="utf-8")]


def test_time_to_stop_is_longer_than_shutdown_and_hard_stop(units):
    arguments = command_of(units["worker"])
    shutdown_s = parse_duration(arguments[arguments.index("--shutdown-timeout") + 1])

    assert parse_duration(units["worker"]["TimeoutStopSec"]) > shutdown_s + HARD_STOP_S
    assert parse_duration(units["dashboard"]["TimeoutStopSec"]) > OPEN_PAGES_S


def test_settings_that_the_page_explains_are_those_of_the_units(units):
    page = PAGE.read_text(encoding="utf-8")
    pairs = re.findall(r"^\| `(\w+)=(.+?)` \|", page, re.MULTILINE)
    options = re.findall(r"^\| `(--.+?)` \|", page, re.MULTILINE)

    assert len(pairs) > 5
    for name, text in pairs:
        assert text in {unit.get(name) for unit in units.values()}, name
    assert len(options) > 1
    assert all(option in units["worker"]["ExecStart"] for option in options)
    assert f"http://127.0.0.1:{_option(units['worker'], '--health-port')}/ready" in page


def test_files_of_the_environment_are_those_that_the_page_installs(units):
    for unit in units.values():
        path = Path(unit["EnvironmentFile"])
        text = (EXAMPLE / path.name).read_text(encoding="utf-8")
        assert str(path.parent) == "/etc/shop"
        assert re.search("^PGSLUICE_DSN=postgresql://", text, re.MULTILINE)
        assert path.name in PAGE.read_text(encoding="utf-8")


@pytest.fixture
def installed(tmp_path):
    """Copies of the units whose program exists here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt install systemd)")
    copies = []
    for path in EXAMPLE.glob("*.service"):
        copies.append(tmp_path / path.name)
        copies[-1].write_text(path.read_text(encoding="utf-8").replace(PROGRAM, "/bin/true"))
    return copies


def test_systemd_accepts_the_units(installed):
    assert analyze("verify", "--man=no", *installed) == ""


def test_unknown_setting_is_found(installed):
    text = installed[0].read_text().replace("TimeoutStopSec", "TimeoutEndSec")
    installed[0].write_text(text)

    assert "Unknown key" in analyze("verify", "--man=no", installed[0])


def test_hardening_is_rated_as_the_page_shows(installed):
    [shown] = re.findall(r"rates them (\d\.\d) of 10", PAGE.read_text(encoding="utf-8"))
    for unit in installed:
        rated = analyze("security", "--offline=true", "--no-pager", unit)
        assert float(re.search(r"exposure level for \S+: ([\d.]+)", rated)[1]) <= float(shown)


def analyze(*arguments):
    done = subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_commands_of_the_units_run_and_stop(units, database_18, tmp_path):
    shutil.copy(ROOT / "examples" / "docker" / "shop.py", tmp_path)
    ports = {
        _option(units["worker"], "--health-port"): str(free_port()),
        _option(units["maintenance"], "--metrics-port"): str(free_port()),
        _option(units["dashboard"], "--port"): str(free_port()),
    }
    paths = {"worker": "ready", "maintenance": "metrics", "dashboard": ""}
    answers = {"worker": 200, "maintenance": 200, "dashboard": 401}
    processes = []

    with ExitStack() as stack:
        for unit in units.values():
            text = (EXAMPLE / Path(unit["EnvironmentFile"]).name).read_text(encoding="utf-8")
            variables = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
            arguments = [ports.get(word, word) for word in command_of(unit)]
            process = subprocess.Popen(
                [sys.executable, "-m", "pgsluice", *arguments], cwd=tmp_path,
                env=environment(tmp_path, **variables | {"PGSLUICE_DSN": database_18.url}),
            )  # fmt: skip
            stack.callback(process.kill)
            processes.append(process)
        for (name, path), port in zip(paths.items(), ports.values(), strict=True):
            address = f"http://127.0.0.1:{port}/{path}"
            wait_until(lambda: status_of(address) == answers[name], name)  # noqa: B023
        for process in processes:
            process.terminate()  # systemd's SIGTERM

        assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]


@pytest.mark.slow
def test_units_exit_for_good_only_with_the_codes_of_what_cannot_start(units, tmp_path):
    (tmp_path / "empty.py").write_text("")
    codes = []
    for name in ("empty:app", "missing:app"):
        arguments = [name if word == "shop:app" else word for word in command_of(units["worker"])]
        codes.append(
            subprocess.run(
                [sys.executable, "-m", "pgsluice", *arguments], cwd=tmp_path,
                env=environment(tmp_path, PGSLUICE_DSN="postgresql://127.0.0.1:1/none"),
                capture_output=True, timeout=60, check=False,
            ).returncode
        )  # fmt: skip

    assert {str(code) for code in codes} <= {*units["worker"]["RestartPreventExitStatus"].split()}
    assert "RestartPreventExitStatus" not in units["maintenance"]


def _option(unit, name):
    arguments = command_of(unit)
    return arguments[arguments.index(name) + 1]
