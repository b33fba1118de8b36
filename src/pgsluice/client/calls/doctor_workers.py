"""Symptoms of worker processes and paused queues that `pgsluice doctor` reports; see `doctor.Symptom`."""

from __future__ import annotations

from pgsluice.client.calls.call import Call, record
from pgsluice.client.calls.doctor import Symptom


def silent_workers() -> Call[list[Symptom]]:
    """Return the sources of workers that ended without notice, and that no live worker has taken over."""
    return Call(
        """
        with worker as materialized (select w.* from sluice.list_workers() as w)
        select 'warn',
            format(
                '%%s: its last worker, app %%L on host %%s, has been silent since %%s', s.source,
                (array_agg(w.app order by w.reported_at desc))[1], (array_agg(w.host order by w.reported_at desc))[1],
                date_trunc('second', max(w.reported_at))
            ),
            format('pgsluice worker run MODULE:APP --queues %%L', split_part(s.source, ' ', 2))
        from worker as w
        cross join lateral unnest(w.sources) as s (source)
        where not exists (select from worker as live where live.is_live and s.source = any (live.sources))
        group by s.source
        order by s.source
        """,
        (),
        record(Symptom),
    )


def paused_queues() -> Call[dict[str, Symptom]]:
    """Return the paused queues, with the symptom for when messages wait."""
    return Call(
        """
        select p.queue_name, 'warn',
            format(
                'queue %%L has been paused since %%s by %%s%%s, and messages wait', p.queue_name,
                date_trunc('second', p.paused_at), p.paused_by, ': ' || p.pause_reason
            ),
            format('pgsluice queue set %%L paused=false', p.queue_name)
        from sluice.queue_settings as p
        where p.paused_at is not null
        order by p.queue_name
        """,
        (),
        lambda rows: {name: Symptom(*symptom) for name, *symptom in rows},
    )
