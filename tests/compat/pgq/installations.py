"""Where the programs of PgQ run in tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Installation:
    """A database with our schemas or with PgQ, and a login role that is a member of pgq_admin and no more.

    Attributes:
        is_ours: Whether it has our schemas.
        url: Its address for a superuser.
        role: The login role.
        libpq: The address for that role as libpq's words.
    """

    is_ours: bool
    url: str
    role: str
    libpq: str
