"""Installations in which tests run the programs of PgQ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Installation:
    """A database with our schemas or with PgQ, and a login role that is only in pgq_admin.

    Attributes:
        is_ours: True if it has our schemas.
        url: Connection URL of a superuser.
        role: The login role.
        libpq: libpq connection string of that role.
    """

    is_ours: bool
    url: str
    role: str
    libpq: str
