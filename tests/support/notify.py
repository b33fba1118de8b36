"""A listener for tests of notifications."""

from __future__ import annotations

import psycopg


class Listener:
    """Records the notifications of a queue by channel."""

    def __init__(self, session: psycopg.Connection, *channels: str) -> None:
        self._session = session
        self._heard: list[str] = []
        session.add_notify_handler(lambda notification: self._heard.append(notification.channel))
        for channel in channels:
            session.execute(f'listen "{channel}"')

    def heard(self) -> list[str]:
        """Return the channels of all notifications committed since the last call."""
        self._session.execute("select 1")
        heard, self._heard[:] = list(self._heard), []
        return heard


LAST_NOTIFIED = (
    "select extract(epoch from last_notified_at)::float8 from pgmq.list_notify_insert_throttles()"
)
