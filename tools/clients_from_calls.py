"""Generate the async clients from the calls: `python tools/clients_from_calls.py [--check]`.

Each class of `client/calls/clients.py` becomes a module of `client/_async`, with a method for each call that `method`
marks for it. The method has the function's signature and docstring, and runs the returned call with the runner method
of `RUN`. tools/sync_from_async.py generates the sync clients from these.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from installed import write_or_check
from sync_from_async import formatted

CLIENT = Path(__file__).parent.parent / "src" / "pgsluice" / "client"
CALLS = "pgsluice.client.calls"
NOTE = "# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.\n"
# Runner methods by the return type of the function.
RUN = {"Call": "run", "Steps": "run_steps", "CallOrCopy": "run_or_copy"}
# A stream is a loop over its pages instead of a single runner call.
STREAM = """\
stream = {call}
async with aclosing(self._runner.stream(stream.query, stream.fetch_qty)) as pages:
    async for page in pages:
        for row in page:
            yield stream.read_row(*row)
"""


class CallError(Exception):
    """A call that cannot become a method; the message has its name."""


@dataclass(frozen=True)
class Module:
    """A module of calls: its source, and the origins of the names that it uses."""

    name: str
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, path: Path) -> Module:
        """Parse a file."""
        text = path.read_text(encoding="utf-8")
        return cls(path.stem, text, ast.parse(text))

    def segment(self, node: ast.expr) -> str:
        """Return the source of an expression."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def docstring(self, node: ast.ClassDef | ast.FunctionDef) -> str:
        """Return a docstring's source, quotes included, without its indentation."""
        if ast.get_docstring(node) is None:
            raise CallError(f"{self.name}.{node.name} has no docstring")
        text = " " * 4 + self.segment(node.body[0].value)  # type: ignore[attr-defined]
        return textwrap.dedent(text)

    def imports(self, nodes: list[ast.expr]) -> Iterator[str]:
        """Yield the statements that import the names of these expressions."""
        origins = {
            alias.asname or alias.name: f"from {node.module} import {alias.name}"
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        names = {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}
        for name in names - set(dir(builtins)):
            yield origins.get(name, f"from {CALLS}.{self.name} import {name}")


@dataclass
class Client:
    """A client class to generate.

    Attributes:
        module: The module that declares it.
        node: Its declaration.
        methods: The source of each method, by name.
        imports: Import statements that the methods need when they are defined.
        types: Those of their annotations, which only type checkers need: most records of calls that a program never
            makes would slow its start.
    """

    module: Module
    node: ast.ClassDef
    methods: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The name of the async class."""
        return f"Async{self.node.name}"

    @property
    def init(self) -> ast.FunctionDef:
        """The declared `__init__`."""
        (init,) = (node for node in self.node.body if isinstance(node, ast.FunctionDef))
        return init

    @property
    def constants(self) -> dict[str, str | tuple[str, ...]]:
        """The declared constants by name."""
        return {
            ast.unparse(node.targets[0]): ast.literal_eval(node.value)
            for node in self.node.body
            if isinstance(node, ast.Assign)
        }

    @property
    def given(self) -> list[str]:
        """The constructor's arguments after the connection: the first arguments of its calls."""
        return [argument.arg for argument in self.init.args.args[2:]]

    @property
    def order(self) -> list[str]:
        """The declared methods to begin with, and then the others."""
        declared = list(self.constants.get("ORDER", ()))
        if missing := set(declared) - self.methods.keys():
            raise CallError(f"{self.node.name}.ORDER names no method: {', '.join(sorted(missing))}")
        return [*declared, *(name for name in self.methods if name not in declared)]

    def add(self, module: Module, function: ast.FunctionDef, options: dict[str, str]) -> None:
        """Add a method that runs the call returned by a function."""
        name = options.get("name", function.name)
        where = f"{module.name}.{function.name}"
        if name in self.methods:
            raise CallError(f"{where}: {self.node.name} has a method {name} already")
        returns = function.returns
        if not isinstance(returns, ast.Subscript) or not isinstance(returns.value, ast.Name):
            raise CallError(f"{where} returns neither Stream nor one of {', '.join(RUN)}")
        names = [argument.arg for argument in _positional(function.args)]
        if names[: len(self.given)] != self.given:
            raise CallError(f"{where}: its first arguments are not {', '.join(self.given)}")
        passed = ", ".join(self._passed(function.args))
        call = f"calls.{module.name}.{function.name}({passed})"
        result, body = _run(module, returns, call, where)
        self.imports |= set(module.imports(_defaults(function.args)))
        self.types |= set(module.imports([*_annotations(function.args), returns.slice]))
        self.methods[name] = _function(
            f"async def {name}",
            function.args,
            len(self.given),
            result,
            module.docstring(function),
            body,
        )

    def _passed(self, arguments: ast.arguments) -> Iterator[str]:
        """Yield the arguments that a method passes to its function."""
        if self.given:
            yield "*self._name"
        yield from (argument.arg for argument in _positional(arguments)[len(self.given) :])
        yield from (f"{argument.arg}={argument.arg}" for argument in arguments.kwonlyargs)
        if arguments.kwarg is not None:
            yield f"**{arguments.kwarg.arg}"

    def written(self) -> str:
        """Return the source of its module."""
        module, init = self.module, self.init
        source = init.args.args[1].arg
        module_of_base, _, base = str(self.constants.get("BASE", "")).rpartition(".")
        body = (
            f"super().__init__({source})\n" if base else f"self._runner = AsyncRunner({source})\n"
        )
        if self.given:
            names = str(tuple(self.given)).replace("'", "")
            body += f"self._name = {names}\n"
        made = _function("def __init__", init.args, 1, "None", module.docstring(init), body)
        imports = {
            "from contextlib import aclosing",
            "from typing import TYPE_CHECKING",
            "from pgsluice.client import calls",
            "from pgsluice.client._async.runner import AsyncRunner",
            *self.imports,
            # Containers of dependency injection resolve the annotations of constructors.
            *module.imports([*_annotations(init.args), *_defaults(init.args)]),
            *([f"from {module_of_base} import {base}"] if base else []),
        }
        types = {"from collections.abc import AsyncGenerator", *self.types} - imports
        about = textwrap.indent(module.docstring(self.node), " " * 4, _is_text)
        methods = [made, *(self.methods[name] for name in self.order)]
        functions = textwrap.indent("\n".join(methods), " " * 4, _is_text)
        head = f'"""`{self.name}`: its methods run the calls."""\n\nfrom __future__ import annotations\n\n'
        return (
            f"{NOTE}{head}"
            + "\n".join(sorted(imports))
            + "\n\nif TYPE_CHECKING:\n"
            + textwrap.indent("\n".join(sorted(types)), " " * 4)
            + f"\n\nclass {self.name}{f'({base})' if base else ''}:\n{about}\n\n{functions}"
        )


def _is_text(line: str) -> bool:
    return bool(line.strip())


def _positional(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args]


def _annotations(arguments: ast.arguments) -> list[ast.expr]:
    every = [*_positional(arguments), *arguments.kwonlyargs]
    if arguments.kwarg is not None:
        every.append(arguments.kwarg)
    return [each.annotation for each in every if each.annotation is not None]


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [node for node in (*arguments.defaults, *arguments.kw_defaults) if node is not None]


def _run(module: Module, returns: ast.Subscript, call: str, where: str) -> tuple[str, str]:
    """Return the method's return annotation and body."""
    kind = module.segment(returns.value)
    result = module.segment(returns.slice)
    if kind == "Stream":
        return f"AsyncGenerator[{result}]", STREAM.format(call=call)
    if kind not in RUN:
        raise CallError(f"{where} returns {kind}; use Stream, {', '.join(RUN)}")
    awaited = f"await self._runner.{RUN[kind]}({call})\n"
    return result, awaited if result == "None" else f"return {awaited}"


def _function(
    head: str, arguments: ast.arguments, skipped: int, result: str, docstring: str, body: str
) -> str:
    """Return the source of a method; `self` replaces the function's first arguments."""
    of_method = copy.copy(arguments)
    of_method.posonlyargs, of_method.args = [], [ast.arg("self"), *_positional(arguments)[skipped:]]
    text = textwrap.indent(f"{docstring}\n{body}", " " * 4, _is_text)
    return f"{head}({ast.unparse(of_method)}) -> {result}:\n{text}"


def _mark(function: ast.FunctionDef) -> tuple[str, dict[str, str]] | None:
    """Return the class and the options of `method`, or None if the function is no method."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "method":
            options = {
                str(keyword.arg): ast.literal_eval(keyword.value) for keyword in decorator.keywords
            }
            return ast.unparse(decorator.args[0]), options
    return None


def clients(folder: Path) -> list[Client]:
    """Return the classes with their methods, by module and by position in it."""
    declared = Module.read(folder / "clients.py")
    found = {
        node.name: Client(declared, node)
        for node in declared.tree.body
        if isinstance(node, ast.ClassDef)
    }
    for path in sorted(folder.glob("*.py")):
        module = Module.read(path)
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef) and (mark := _mark(node)) is not None:
                found[mark[0]].add(module, node, mark[1])
    return list(found.values())


def main() -> int:
    """Write the modules, or with --check list outdated ones."""
    modules = {
        CLIENT / "_async" / f"{_snake_case(client.node.name)}.py": formatted(client.written())
        for client in clients(CLIENT / "calls")
    }
    return write_or_check(modules, check="--check" in sys.argv)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


if __name__ == "__main__":
    sys.exit(main())
