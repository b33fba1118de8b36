"""tools/explore.py: which runs are next, and how a failure is repeated."""

import json
import os
import shlex
import sys
import time

import pytest
from tools.explore import Exploration, Failure, Unit, chosen, failed_tests, run_until


def test_paths_select_files_of_the_list_and_other_arguments_are_options():
    files, options = chosen(["tests/property/", "-x", "tests/verify/test_tally.py"])

    assert "tests/property/test_cron.py" in files
    assert "tests/verify/test_tally.py" in files
    assert not [each for each in files if each.startswith("tests/spark/")]
    assert options == ["-x"]


def test_the_next_run_is_the_one_that_ran_for_the_shortest_time():
    units = [Unit("a", "long", 3.0), Unit("b", "long", 2.0), Unit("c", "long", 1.0, is_empty=True)]
    exploration = Exploration(units, [], time.monotonic())

    assert [exploration._next() for _ in range(3)] == [units[1], units[0], None]


@pytest.mark.parametrize("name", ["tests/a.py::test_b[seed1-it's so]", 'tests/a.py::test_b["x"]'])
def test_the_printed_command_names_the_test_and_the_seed(name):
    line = Failure(name, 7).command()

    variable, make, test, arguments = shlex.split(line)
    assert (variable, make, test) == ("PGSLUICE_TEST_SEED=7", "make", "test")
    assert shlex.split(arguments.removeprefix("ARGS=")) == ["-m", "", "--numprocesses=0", name]


def test_failed_tests_are_those_of_the_cache(tmp_path):
    assert failed_tests(tmp_path) == []

    (tmp_path / "v" / "cache").mkdir(parents=True)
    (tmp_path / "v" / "cache" / "lastfailed").write_text(json.dumps({"b": True, "a": True}))

    assert failed_tests(tmp_path) == ["a", "b"]


def test_a_run_is_stopped_at_the_end():
    program = [sys.executable, "-c", "import time; time.sleep(600)"]

    assert run_until(time.monotonic() + 0.2, program, dict(os.environ)) == (None, "")
    assert run_until(
        time.monotonic() + 60, [sys.executable, "-c", "print(1)"], dict(os.environ)
    ) == (0, "1\n")
