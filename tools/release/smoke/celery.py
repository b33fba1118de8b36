"""Send a task of Celery, and receive it through the transport."""

from __future__ import annotations

from celery import Celery
from kombu import Connection

from pgsluice import connect, resolve, schema

TRANSPORT = "pgsluice.contrib.kombu:Transport"

with connect() as connection:
    schema.install(connection)

app = Celery("shop", broker="postgresql://")
app.conf.update(broker_transport=TRANSPORT, broker_url=resolve().conninfo)


@app.task(name="shop.add")  # type: ignore[untyped-decorator]
def add(one: int, two: int) -> int:
    """Return the sum."""
    return one + two


sent = add.delay(4, 4)
with Connection(resolve().conninfo, transport=TRANSPORT) as transport:
    received = transport.SimpleQueue("celery").get(timeout=30)
    assert received.headers["id"] == sent.id, received.headers
    received.ack()
app.close()
