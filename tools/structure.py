"""Print the size of the structure, import cycles and imports against the layers: `python tools/structure.py`.

The layers are those of the import-linter contracts in pyproject.toml. Imports for type checking are ignored there, and
counted among the cycles here.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import grimp

from pgsluice import WorkQueue
from pgsluice.cli.main import cli

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "pgsluice"
_GENERATED = re.compile(r"client/_(a?sync)/|worker/engine/\w+/_sync/")
_FUNCTION = re.compile(r"^create or replace (?:function|procedure) (\w+\.\w+)", re.MULTILINE)
_CHILD = re.compile(r" inherits \(| partition of |_\d$")
_COMPARED = re.compile(r"(?<!1 )(?<!max_attempts )[<>]=? *[\w.$]*max_attempts\b")
# A candidate writes that it leads; the times of the units of a duration.
_LEADS = re.compile(r"perform setval\(\s*format\('sluice\.%I', role \|\| '_turn'\)::regclass,\s*\(")
# delta-rs, copy-on-write of Iceberg tables, and the statement for sessions that have the jar of Delta.
_MERGES = re.compile(
    r"table\.merge\($|def merged\(table: MutableTable|merge into delta\.", re.MULTILINE
)
_UNITS = re.compile(r"""["']h["']: ?3_?600\b""")
# Names the clients that are generated from the calls, with their docstrings.
# Django demands the name of their class.
_DJANGO_MIGRATIONS = PACKAGE / "contrib/django/migrations"
_OUTLINES = PACKAGE / "client" / "calls" / "clients.py"
# A client and its asynchronous form are defined under the same name on purpose.
_BOTH_FORMS = re.compile(r"\._(a?sync)\b")


def circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return the largest sets of modules that import each other, directly or not."""
    below = {module: graph.find_upstream_modules(module) for module in graph.modules}
    found = {
        frozenset({module, *(other for other in imported if module in below[other])})
        for module, imported in below.items()
    }
    return sorted(sorted(modules) for modules in found if len(modules) > 1)


def upward(graph: grimp.ImportGraph, contract: dict[str, list[str]]) -> list[str]:
    """Return the imports against the layers of a contract."""
    layers = [
        grimp.Layer(*(name.strip() for name in layer.split("|")), independent=True)
        for layer in contract["layers"]
    ]
    containers = set(contract.get("containers", ()))
    return sorted(
        f"{package.importer} -> {package.imported}"
        for package in graph.find_illegal_dependencies_for_layers(
            layers=layers, containers=containers or None
        )
    )


def kinds_of_tables() -> set[str]:
    """Return the tables of the schemas, without partitions and children, which are of their parent's kind."""
    rows = map(json.loads, (PACKAGE / "sql" / "objects.jsonl").read_text().splitlines())
    return {
        name
        for kind, name, _, statement in rows
        if kind == "table" and not _CHILD.search(statement) and not _CHILD.search(name)
    }


def tables_of_settings() -> set[str]:
    """Return the tables with one row per queue, besides that of the queues."""
    rows = (PACKAGE / "sql" / "catalog.txt").read_text()
    return set(
        re.findall(r"^constraint\t(\S+)\t\S+\tPRIMARY KEY \(queue_name\)$", rows, re.MULTILINE)
    )


def function_names() -> set[str]:
    """Return the names of the SQL functions of all schemas; overloads have one name."""
    return {
        name
        for file in (PACKAGE / "sql").rglob("*.sql")
        for name in _FUNCTION.findall(file.read_text())
    }


def commands(group: click.Command = cli, name: str = "pgsluice") -> Iterator[str]:
    """Yield the commands that are no groups of commands and not hidden."""
    if not isinstance(group, click.Group):
        yield name
        return
    context = click.Context(group)
    for part in group.list_commands(context):
        command = group.get_command(context, part)
        assert command is not None
        if not command.hidden:
            yield from commands(command, f"{name} {part}")


def names_in_two_modules() -> dict[str, list[str]]:
    """Return the public classes and functions that two modules define, with these modules."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in PACKAGE.rglob("*.py"):
        if file == _OUTLINES or file.is_relative_to(_DJANGO_MIGRATIONS):
            continue
        module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(_BOTH_FORMS.sub("", module))
    return {name: sorted(modules) for name, modules in sorted(found.items()) if len(modules) > 1}


def files_with(pattern: re.Pattern[str]) -> set[str]:
    """Return the files of Python and SQL in which a pattern is found."""
    return {
        file.relative_to(PACKAGE).as_posix()
        for suffix in (".py", ".sql")
        for file in PACKAGE.rglob(f"*{suffix}")
        if pattern.search(file.read_text())
    }


def lines(suffix: str) -> int:
    """Return the number of hand-written lines of the package in files with a suffix."""
    return sum(
        len(file.read_text().splitlines())
        for file in PACKAGE.rglob(f"*{suffix}")
        if not _GENERATED.search(file.as_posix())
    )


def sizes(graph: grimp.ImportGraph) -> dict[str, int]:
    """Return the figures that measure how much there is to know, by name."""
    return {
        "lines of Python, hand-written": lines(".py"),
        "lines of SQL": lines(".sql"),
        "kinds of tables": len(kinds_of_tables()),
        "names of SQL functions": len(function_names()),
        "kinds of tables of dead letters": len([k for k in kinds_of_tables() if "dead" in k]),
        "tables of settings of queues": len(tables_of_settings()),
        "places that compare attempts with their maximum": len(files_with(_COMPARED)),
        "kinds of tables of heartbeats": len([k for k in kinds_of_tables() if "report" in k]),
        "leader elections": len(files_with(_LEADS)),
        "parsers of durations": len(files_with(_UNITS)),
        "merges into a lake table": len(files_with(_MERGES)),
        "commands": len(list(commands())),
        "methods of WorkQueue": len([name for name in dir(WorkQueue) if not name.startswith("_")]),
        "classes with a name of two modules": len(names_in_two_modules()),
        "circles of imports, also for type checking": len(circles(graph)),
    }


def main() -> int:
    """Return 0 if there is neither an import cycle nor an import against the layers."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    package = settings["root_package"]
    graph = grimp.build_graph(
        package,
        exclude_type_checking_imports=settings["exclude_type_checking_imports"],
        cache_dir=None,
    )
    rings = circles(graph)
    arrows = [
        arrow
        for contract in settings["contracts"]
        if contract["type"] == "layers"
        for arrow in upward(graph, contract)
    ]
    print(
        f"{len(graph.modules)} modules, {len(rings)} import cycles, {len(arrows)} imports against the layers"
    )
    for name, size in sizes(grimp.build_graph(package, cache_dir=None)).items():
        print(f"{size:8,}  {name}")
    for ring in rings:
        print(" <-> ".join(ring))
    for arrow in arrows:
        print(arrow)
    return 1 if rings or arrows else 0


if __name__ == "__main__":
    sys.exit(main())
