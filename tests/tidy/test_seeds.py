"""Randomness of tests comes from seeds in tests/seeds.toml only, so that a run can be repeated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.seeds import TESTS, listed

# Modules and functions that draw without a seed of ours.
UNSEEDED_MODULES = {"secrets", "numpy.random"}
UNSEEDED = {"urandom", "token_hex", "token_bytes", "SystemRandom", "uuid1"}
EXEMPT = {Path(__file__), TESTS / "support" / "seeds.py"}
MAY_DRAW = re.compile("random|secrets|urandom|token_|uuid1|seed|@given")
DRAWS = {"Random", "Generator", "default_rng"}


def called(node: ast.expr) -> str:
    """Return the dotted name of what is called, or an empty text."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, name):
            return f"{called(value)}.{name}"
    return ""


def violations(tree: ast.Module) -> Iterator[str]:
    """Return the uses of randomness that no seed of a test decides."""
    inner = {id(f) for each in ast.walk(tree) for f in functions_in(each)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Import(names) if names_of(names) & UNSEEDED_MODULES:
                yield f"{line}: draws without a seed"
            case ast.ImportFrom(module, names) if module in UNSEEDED_MODULES or (
                module == "random" and names_of(names) != {"Random"}
            ):
                yield f"{line}: draws without a seed"
            case ast.Call(function, arguments, keywords):
                yield from (
                    f"{line}: {wrong}" for wrong in wrong_call(function, arguments, keywords)
                )
            case ast.FunctionDef() if "given" in decorators(node):
                if id(node) in inner and "with_seed" not in decorators(node):
                    yield f"{line}: @given inside of a function needs @with_seed(seed)"
            case ast.ImportFrom(module, names):
                if module == "hypothesis" and "reproduce_failure" in names_of(names):
                    yield f"{line}: a failing seed belongs in tests/seeds.toml"


def functions_in(node: ast.AST) -> list[ast.FunctionDef]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    return [
        each for each in ast.walk(node) if isinstance(each, ast.FunctionDef) and each is not node
    ]


def names_of(names: list[ast.alias]) -> set[str]:
    return {each.name for each in names}


def decorators(function: ast.FunctionDef) -> set[str]:
    return {
        called(each.func if isinstance(each, ast.Call) else each)
        for each in function.decorator_list
    }


def wrong_call(
    function: ast.expr, arguments: list[ast.expr], keywords: list[ast.keyword]
) -> Iterator[str]:
    module, _, name = called(function).rpartition(".")
    if module == "random" and name not in DRAWS:
        yield f"random.{name} draws without a seed"
    if name in UNSEEDED:
        yield f"{name} draws without a seed"
    given = [*arguments, *(each.value for each in keywords if each.arg in ("seed", "x", None))]
    is_fixed = not given or isinstance(given[0], ast.Constant)
    if name in DRAWS and module in ("random", "", "np.random") and is_fixed:
        yield f"{name} needs the fixture `seed`"
    if name == "with_seed" and isinstance(given[0], ast.Constant):
        yield "with_seed needs the fixture `seed`"
    if any(each.arg == "use_true_random" and not is_false(each.value) for each in keywords):
        yield "draws without a seed"
    if any(each.arg == "seed" and isinstance(each.value, ast.Constant) for each in keywords):
        yield "a seed is written here and not in tests/seeds.toml"
    if name == "parametrize" and arguments:
        first = arguments[0]
        values = [first, *(first.elts if isinstance(first, ast.Tuple | ast.List) else [])]
        if any("seed" in str(v.value).split(",") for v in values if isinstance(v, ast.Constant)):
            yield "seeds are parameters of tests/seeds.toml"


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_every_random_choice_follows_from_a_listed_seed():
    found = [
        f"tests/{path.relative_to(TESTS)}:{wrong}"
        for path in sorted({*TESTS.rglob("*.py")} - EXEMPT)
        if MAY_DRAW.search(source := path.read_text())
        for wrong in violations(ast.parse(source))
    ]

    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "import secrets",
        "from random import choice",
        "random.choice([1, 2])",
        "random.Random()",
        "random.Random(7)",
        "random.SystemRandom().random()",
        "os.urandom(8)",
        "run(database, seed=3)",
        "with_seed(3)(machine)",
        "st.randoms(use_true_random=True)",
        "@pytest.mark.parametrize('seed', range(3))\ndef test(seed): ...",
        "@pytest.mark.parametrize(('seed', 'held'), [(1, 2)])\ndef test(seed, held): ...",
        "def compare():\n    @given(cases())\n    def agree(case): ...",
    ],
)
def test_a_choice_that_no_listed_seed_decides_is_found(source: str):
    assert list(violations(ast.parse(source))) != []


@pytest.mark.parametrize(
    "source",
    [
        "random.Random(seed).choice([1, 2])",
        "random.Random(f'{seed}/{number}')",
        "def test(dice: random.Random): ...",
        "def compare(seed):\n    @with_seed(seed)\n    @given(cases())\n    def agree(case): ...",
        "@given(cases())\ndef test(case): ...",
        "uuid4()",
    ],
)
def test_a_choice_that_a_seed_decides_is_not_reported(source: str):
    assert list(violations(ast.parse(source))) == []


def test_the_listed_tests_exist():
    missing = [
        f"{name}::{test}"
        for name, tests in listed().items()
        for test in tests
        if not (path := TESTS.parent / name).exists() or f"def {test}(" not in path.read_text()
    ]

    assert missing == []
