"""Check the distributions before a release: `python tools/release_check.py [--slow] [--python 3.13]`.

Builds the wheel and the sdist into dist, checks their contents, metadata, licences and sizes, installs them with
each extra into clean environments of each Python at hand, runs a program per extra there, and writes the bill of
materials. One line per check; exits with 1 if one fails.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pgsluice.embedded import EmbeddedServer
from release import distributions, environments, licences
from release.sbom import sbom_problems, write_sbom

_BUILT, _REBUILT = "wheel", "wheel from the sdist"
# Newest first: the bill of materials and the licences are those of the newest Python at hand.
_PYTHONS = tuple(reversed(environments.PYTHONS))


class Checks:
    """Runs checks, prints a line for each, and counts those that failed."""

    def __init__(self) -> None:
        """Start the clock."""
        self.failed = 0
        self._began_s = time.monotonic()

    def run(self, name: str, check: Callable[[], list[str]]) -> bool:
        """Run one check, which returns problems; return True if there is none."""
        began_s = time.monotonic()
        try:
            problems = check()
        except Exception as error:  # noqa: BLE001  # a check that breaks has failed
            problems = [f"{type(error).__name__}: {error} {getattr(error, 'stderr', None) or ''}"]
        seconds = time.monotonic() - began_s
        print(f"{'FAIL' if problems else 'ok':4}  {name}  ({seconds:.1f} s)", flush=True)
        for problem in problems:
            print("        " + problem.strip().replace("\n", "\n        "), flush=True)
        self.failed += bool(problems)
        return not problems

    def finish(self) -> int:
        """Print the total; return the exit code."""
        print(f"{self.failed} failed, {time.monotonic() - self._began_s:.0f} s in all")
        return 1 if self.failed else 0


def build(target: Path) -> list[str]:
    """Build the wheel and the sdist into an empty folder; return what is wrong with their number."""
    shutil.rmtree(target, ignore_errors=True)
    built = distributions.build(distributions.ROOT, target)
    return [] if len(built) == 2 else [f"built {[path.name for path in built]}"]


def check_files(checks: Checks, wheel: Path, sdist: Path, rebuilt: Path) -> None:
    """Check the distributions themselves.

    Args:
        checks: Where to report.
        wheel: The wheel.
        sdist: The sdist.
        rebuilt: Folder for the wheel that is built from the sdist.
    """
    extras = list(distributions.project()["optional-dependencies"])
    checks.run("contents of the wheel", lambda: distributions.wheel_problems(wheel))
    checks.run("contents of the sdist", lambda: distributions.sdist_problems(sdist))
    checks.run("metadata", lambda: distributions.metadata_problems(wheel, sdist))
    checks.run("licences of the files", lambda: licences.file_problems(wheel))
    checks.run("a smoke test per extra", lambda: environments.coverage_problems(extras))
    checks.run(
        "the wheel from the sdist is the same",
        lambda: distributions.sdist_wheel_problems(sdist, wheel, rebuilt),
    )


def check_python(
    checks: Checks,
    version: str,
    wheels: dict[str, Path],
    server: EmbeddedServer,
    folder: Path,
    *,
    slow: bool,
) -> Path | None:
    """Install and use the wheels with one version of Python.

    Args:
        checks: Where to report.
        version: Such as 3.13.
        wheels: The wheel of the sources and that of the sdist, by name.
        server: Server for the smoke tests.
        folder: Folder for environments.
        slow: True to run Spark too.

    Returns:
        Interpreter of the environment with all extras; None without this Python.
    """
    interpreter = environments.find_python(version)
    if interpreter is None:
        print(f"skip  Python {version}: not on PATH and not in pyenv", flush=True)
        return None
    if not environments.supports(version):
        print(f"skip  Python {version}: no classifier in pyproject.toml names it", flush=True)
        return None
    # Their contents are the same, so that each combination is tested with one of them.
    extras = ["all", "base", *distributions.project()["optional-dependencies"]]  # the longest first
    plan = [(_REBUILT if each == "all" else _BUILT, each) for each in dict.fromkeys(extras)]

    def check(name: str, extra: str) -> None:
        checks.run(
            f"Python {version}, {name}, {extra}",
            lambda: environments.extra_problems(
                interpreter, wheels[name], extra, folder, server, slow=slow
            ),
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: check(*each), plan))
    return environments.folder_of(folder, interpreter, "all") / "bin" / "python"


def check_dependencies(checks: Checks, wheel: Path, python: Path) -> None:
    """Check the licences of what `all` installs, and write the bill of materials."""
    packages = licences.installed_packages(python)
    others = [each for each in packages if each.name != "pgsluice"]
    checks.run(f"licences of {len(others)} packages", lambda: licences.dependency_problems(others))
    versions = {each.name: each.version for each in others}
    checks.run(
        "bill of materials", lambda: sbom_problems(write_sbom(wheel, python), wheel, versions)
    )


def main() -> int:
    """Run the checks; return the exit code."""
    parser = argparse.ArgumentParser(description="Check the distributions before a release.")
    parser.add_argument(
        "--slow", action="store_true", help="run Spark in the environments that have it"
    )
    parser.add_argument(
        "--files", action="store_true", help="check the files only; create no environment"
    )
    parser.add_argument(
        "--python", action="append", help="version of Python, such as 3.13 [default: each]"
    )
    parser.add_argument(
        "--dist", type=Path, default=distributions.ROOT / "dist", help="folder to write to"
    )
    options = parser.parse_args()
    dist: Path = options.dist
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="pgsluice-release-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # as root the server runs as another user
        if not checks.run("build", lambda: build(dist)):
            return checks.finish()
        (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
        check_files(checks, wheel, sdist, folder / "sdist")
        if options.files:
            return checks.finish()
        checks.run("the site from the sdist", lambda: distributions.site_problems(sdist))
        (rebuilt,) = (folder / "sdist").glob("*.whl")
        wheels = {_BUILT: wheel, _REBUILT: rebuilt}
        server = EmbeddedServer(folder / "pg", options={"fsync": "off"})
        server.start()
        try:
            environments.prepare(server)
            found = [
                check_python(checks, each, wheels, server, folder, slow=options.slow)
                for each in options.python or _PYTHONS
            ]
        finally:
            server.stop("immediate")
        newest = next((each for each in found if each is not None and each.exists()), None)
        if newest is None:
            checks.run("Python", lambda: ["no supported Python was found"])
        else:
            check_dependencies(checks, wheel, newest)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
