"""Settings of a dashboard, and what its pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from starlette.requests import Request

from pgsluice.dashboard.acts.act import Act
from pgsluice.dashboard.database import Database
from pgsluice.dashboard.diagnosis import Diagnoses
from pgsluice.dashboard.jobs import Jobs
from pgsluice.dashboard.payloads import Redaction
from pgsluice.dashboard.streams import Streams

Authenticate = Callable[[Request], str | None]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard.

    Attributes:
        database: The database.
        diagnosis: The findings of doctor.
        acts: What it can do, by name.
        allows_actions: True if it may change the database.
        authenticate: Returns the name of the viewer, or None to refuse; None: no authentication.
        key: Without authentication, what a browser must have got by the address to send forms; None: it may not.
        redaction: What is hidden in payloads.
        refresh_s: Time between two refreshes of a page, in seconds.
        title: Shown in the head of each page: the name of the environment.
        streams: The streams to open pages.
        jobs: What its forms have done.
        shard: Name of the database among several; empty: there is one.
        shards: All of them by name.
    """

    database: Database
    diagnosis: Diagnoses
    acts: Mapping[str, Act]
    allows_actions: bool = False
    authenticate: Authenticate | None = None
    key: str | None = None
    redaction: Redaction = field(default_factory=Redaction)
    refresh_s: float = 5.0
    title: str = ""
    streams: Streams = field(default_factory=Streams)
    jobs: Jobs = field(default_factory=Jobs)
    shard: str = ""
    shards: Mapping[str, Database] = field(default_factory=dict)

    def forget(self) -> None:
        """Share nothing that was read before now: an act has changed what viewers see."""
        self.database.forget()
        self.diagnosis.forget()


def dashboard_of(request: Request) -> Dashboard:
    """Return the dashboard that serves a request."""
    return cast("Dashboard", request.app.state.dashboard)
