"""The generator of the clients: the method for each kind of call, and rejected calls."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
CLIENTS = '''
class Log:
    """Read a log."""

    def __init__(self, source: Pool, log_name: str) -> None:
        """Use a pool."""
'''


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return the class that the generator writes for calls, without its imports."""
    monkeypatch.syspath_prepend(TOOLS)
    tool = importlib.import_module("clients_from_calls")
    (tmp_path / "clients.py").write_text(CLIENTS)

    def write(calls):
        (tmp_path / "logs.py").write_text(calls)
        (client,) = tool.clients(tmp_path)
        return tool.formatted(client.written()).partition("(log_name,)\n\n")[2]

    return write


def call(returns, *, mark="Log", arguments="log_name: str", docstring='"""Do it."""'):
    return f"@method({mark})\ndef do({arguments}) -> {returns}:\n    {docstring}\n"


@pytest.mark.parametrize(
    ("returns", "result", "body"),
    [
        ("Call[int]", "int", "return await self._runner.run(calls.logs.do(*self._name))"),
        ("Call[None]", "None", "await self._runner.run(calls.logs.do(*self._name))"),
        ("Steps[bool]", "bool", "return await self._runner.run_steps(calls.logs.do(*self._name))"),
        (
            "CallOrCopy[int]",
            "int",
            "return await self._runner.run_or_copy(calls.logs.do(*self._name))",
        ),
    ],
)
def test_return_type_of_a_call_decides_its_execution(written, returns, result, body):
    assert written(call(returns)) == (
        f'    async def do(self) -> {result}:\n        """Do it."""\n        {body}\n'
    )


def test_a_stream_is_a_generator_over_its_pages(written):
    text = written(call("Stream[Event]"))

    assert text.startswith("    async def do(self) -> AsyncGenerator[Event]:\n")
    assert "self._runner.stream(stream.query, stream.fetch_qty)" in text
    assert text.endswith("yield stream.read_row(*row)\n")


@pytest.mark.parametrize(
    ("mark", "arguments", "head", "passed"),
    [
        ("Log", "a: int = 1, *, b: str", "do(self, a: int = 1, *, b: str)", "a, b=b"),
        ('Log, name="go"', "**rest: Unpack[Rest]", "go(self, **rest: Unpack[Rest])", "**rest"),
    ],
)
def test_a_method_has_the_arguments_of_its_call_but_those_of_the_client(
    written, mark, arguments, head, passed
):
    text = written(call("Call[int]", mark=mark, arguments=f"log_name: str, {arguments}"))

    assert f"async def {head} -> int:" in text
    assert f"logs.do(*self._name, {passed})" in text


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (call("int"), "logs.do returns neither Stream nor one of Call, Steps, CallOrCopy"),
        (call("Copy[int]"), "logs.do returns Copy; use Stream, Call, Steps, CallOrCopy"),
        (call("Call[int]", arguments="a: int"), "logs.do: its first arguments are not log_name"),
        (call("Call[int]", docstring="return 1"), "logs.do has no docstring"),
        (call("Call[int]") * 2, "logs.do: Log has a method do already"),
    ],
)
def test_call_that_cannot_be_a_method_is_refused(written, calls, words):
    with pytest.raises(Exception, match=words):
        written(calls)


def test_declared_methods_come_first_and_the_others_by_position(written, tmp_path):
    (tmp_path / "clients.py").write_text(
        CLIENTS.replace("    def", '    ORDER = ("c",)\n\n    def')
    )
    calls = "".join(call("Call[int]", mark=f'Log, name="{name}"') for name in "abc")

    text = written(calls)

    assert [line.split()[2] for line in text.splitlines() if "async def" in line] == [
        "c(self)",
        "a(self)",
        "b(self)",
    ]


def test_an_order_that_names_no_method_is_refused(written, tmp_path):
    (tmp_path / "clients.py").write_text(
        CLIENTS.replace("    def", '    ORDER = ("x",)\n\n    def')
    )

    with pytest.raises(Exception, match="Log.ORDER names no method: x"):
        written(call("Call[int]"))
