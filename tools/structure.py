"""Print the number of modules, import cycles and imports against the layers: `python tools/structure.py`.

The layers are those of the import-linter contracts in pyproject.toml. Imports for type checking are ignored, as there.
"""

from __future__ import annotations

import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent


def cycles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return import cycles, each as the list of its modules; removing one import of each leaves no cycle."""
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    found = []
    while True:
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            cycle = error.args[1]
            found.append(cycle)
            imports[cycle[1]].discard(cycle[0])
        else:
            return found


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


def main() -> int:
    """Return 0 if there is neither an import cycle nor an import against the layers."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    graph = grimp.build_graph(
        settings["root_package"],
        exclude_type_checking_imports=settings["exclude_type_checking_imports"],
    )
    circles = cycles(graph)
    arrows = [
        arrow
        for contract in settings["contracts"]
        if contract["type"] == "layers"
        for arrow in upward(graph, contract)
    ]
    print(
        f"{len(graph.modules)} modules, {len(circles)} import cycles, {len(arrows)} imports against the layers"
    )
    for circle in circles:
        print(" -> ".join(circle))
    for arrow in arrows:
        print(arrow)
    return 1 if circles or arrows else 0


if __name__ == "__main__":
    sys.exit(main())
