"""Seeds of randomized tests: those of tests/seeds.toml, or the one of PGSLUICE_TEST_SEED.

A test is randomized if it uses the fixture `seed` or is a test of Hypothesis. It runs once for each
of its seeds, which are part of its name, and has the marker `randomized`, by which `make explore`
finds it. A test whose seeds are given per case is not explored: they are chosen to find a planted
bug early.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis import seed as with_seed

TESTS = Path(__file__).parents[1]
VARIABLE = "PGSLUICE_TEST_SEED"

# Neither examples of earlier runs nor the speed of the machine decide the outcome of a test.
settings.register_profile(
    "tests",
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")


@cache
def listed() -> dict[str, dict[str, list[int] | dict[str, int]]]:
    """Return tests/seeds.toml: file → test → its seeds, or its seeds by case."""
    return tomllib.loads((TESTS / "seeds.toml").read_text())


def seeds_of(path: Path, test: str) -> list[int] | dict[str, int]:
    """Return the seeds of a test, or its seeds by case; raise `UsageError` if it has none."""
    name = f"tests/{path.relative_to(TESTS).as_posix()}"
    found = listed().get(name, {}).get(test)
    if not found:
        raise pytest.UsageError(f"{name}::{test} is randomized; add its seeds to tests/seeds.toml")
    return found


def cases(path: str, test: str) -> dict[str, int]:
    """Return the seeds by case of a test of a module, given as `__file__`."""
    found = seeds_of(Path(path), test)
    assert isinstance(found, dict), f"the seeds of {test} are not given by case"
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a randomized test once for each of its seeds."""
    is_of_hypothesis = is_hypothesis_test(metafunc.function)
    if not is_of_hypothesis and "seed" not in metafunc.fixturenames:
        return
    seeds = seeds_of(metafunc.definition.path, metafunc.function.__name__)
    if isinstance(seeds, dict):
        return
    if VARIABLE in os.environ:
        seeds = [int(os.environ[VARIABLE])]
    if is_of_hypothesis:
        metafunc.fixturenames.append("seed")
    metafunc.parametrize(
        "seed",
        [pytest.param(n, id=f"seed{n}", marks=pytest.mark.randomized) for n in seeds],
        indirect=True,
    )


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run; all random choices of the test follow from it."""
    if hasattr(request, "param"):
        return int(request.param)
    by_case = seeds_of(request.path, request.function.__name__)
    cases = (str(value) for value in request.node.callspec.params.values())
    return next((by_case[case] for case in cases if case in by_case), by_case["others"])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give its seed to a test of Hypothesis."""
    if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
        with_seed(item.callspec.params["seed"])(item.obj)
