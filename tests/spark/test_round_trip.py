"""Real payloads all the way: file, queue, worker, archive, lake, and back into a queue."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgsluice.client import WorkQueue
from pgsluice.pipelines.archive import archive
from pgsluice.pipelines.ingest import ingest
from pgsluice.pipelines.replay import replay
from pgsluice.testing import drain
from pgsluice.verify import verify_archive
from pgsluice.worker import App, Context
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEBHOOKS = Path(__file__).parents[3] / "shared" / "data" / "github-webhooks.jsonl.gz"


def decoded(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def texts(db: psycopg.Connection, queue_name: str) -> list[str]:
    query = f"select message::text from pgmq.q_{queue_name} order by msg_id".encode()
    return [text for (text,) in db.execute(query)]


@pytest.mark.slow
@pytest.mark.skipif(not WEBHOOKS.exists(), reason=f"the payloads are not in {WEBHOOKS}")
def test_real_payloads_come_back_from_the_lake_as_they_stood_in_their_file(
    spark: SparkSession, db: psycopg.Connection, database_18: Database, tmp_path: Path
):
    with gzip.open(WEBHOOKS, "rt", encoding="utf-8") as lines:
        in_file = [decoded(line) for line in lines]
    lake, dsn = tmp_path / "hooks", database_18.url
    app, handled = App(dsn), list[int]()

    @app.handler("hooks", concurrency=1)
    async def note(_payload: object, context: Context) -> None:
        handled.append(context.message_id)

    for name in ("hooks", "again"):
        WorkQueue(db).create(name)

    added = ingest(WEBHOOKS, queue="hooks", once=True, dsn=dsn)
    in_queue = texts(db, "hooks")
    drain(app)
    copied = archive("hooks", lake, dsn=dsn, spark=spark)
    report = verify_archive("hooks", lake, dsn=dsn)
    dropped = archive("hooks", lake, drop=True, dsn=dsn, spark=spark)
    replayed = replay(lake, "again", queue="again", dsn=dsn, spark=spark)

    assert [decoded(text) for text in in_queue] == in_file
    assert added.rows == copied.rows == copied.verified == dropped.dropped == replayed.rows == 502
    assert (len(in_file), handled) == (502, list(range(1, 503)))
    assert report.equal, str(report)
    assert db.execute("select count(*) from pgmq.a_hooks").fetchone() == (0,)
    assert texts(db, "again") == in_queue
