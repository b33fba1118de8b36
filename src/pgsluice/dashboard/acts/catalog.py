"""All acts by name."""

from __future__ import annotations

from pgsluice.dashboard.acts import dead_letters, logs, messages, queues, schedules
from pgsluice.dashboard.acts.act import Act

ACTS: dict[str, Act] = {
    each.name: each
    for each in (*queues.ACTS, *messages.ACTS, *dead_letters.ACTS, *logs.ACTS, *schedules.ACTS)
}
