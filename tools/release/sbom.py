"""Bill of materials of the wheel and the packages of its extra `all`, in CycloneDX."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release.distributions import ROOT

_VERSION = "1.6"


def write_sbom(wheel: Path, python: Path) -> Path:
    """Write the bill of materials beside the wheel.

    Args:
        wheel: The wheel; its hash is part of the document.
        python: Interpreter of an environment with the wheel and its extra `all`, and nothing else.

    Returns:
        The file.
    """
    target = wheel.parent / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    options = ["--spec-version", _VERSION, "--output-reproducible", "--mc-type", "library"]
    subprocess.run(
        [
            *(sys.executable, "-m", "cyclonedx_py", "environment", *options),
            *("--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(target), str(python)),
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    document = json.loads(target.read_text(encoding="utf-8"))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    document["metadata"]["component"]["hashes"] = [{"alg": "SHA-256", "content": digest}]
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return target


def sbom_problems(path: Path, wheel: Path, packages: dict[str, str]) -> list[str]:
    """Return violations of the schema, and packages of the environment that are missing.

    Args:
        path: The document.
        wheel: The wheel that it describes.
        packages: Versions by name, of all packages of the environment but pgsluice.
    """
    text = path.read_text(encoding="utf-8")
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    problems = [str(error)] if error else []
    document: dict[str, Any] = json.loads(text)
    listed = {each["name"].lower(): each.get("version") for each in document["components"]}
    problems += [
        f"{name} {version} is missing"
        for name, version in packages.items()
        if listed.get(name.lower()) != version
    ]
    root = document["metadata"]["component"]
    if (root["name"], root["version"]) != tuple(wheel.name.split("-")[:2]):
        problems.append(f"it describes {root['name']} {root['version']}")
    return problems
