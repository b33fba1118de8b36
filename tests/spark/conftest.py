"""One Spark session for all tests of this folder, as a JVM starts slower than most tests run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from pgsluice.lake.current_tables import Tables
from pgsluice.lake.tables import tables_in
from support.object_store import ObjectStore, environment, free_port, running_object_store
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "log"
# For JVMs that run for seconds, the second compiler and the parallel collector do not pay off.
FAST_JVM = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tests' PGSLUICE_HOME."""
    folder = tmp_path_factory.mktemp("home")
    before = os.environ.get("PGSLUICE_HOME")
    os.environ["PGSLUICE_HOME"] = str(folder)
    # The folder of pyiceberg's configuration, in this process and in Spark's.
    os.environ["PYICEBERG_HOME"] = str(folder)
    yield folder
    del os.environ["PYICEBERG_HOME"]
    if before is None:
        del os.environ["PGSLUICE_HOME"]
    else:
        os.environ["PGSLUICE_HOME"] = before


@pytest.fixture(scope="session")
def object_store_port() -> Iterator[int]:
    """The port of the object store, in the environment of this process and of Spark's, which starts only once."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(port).items():
            patch.setenv(name, value)
        yield port


@pytest.fixture(scope="session")
def object_store(object_store_port: int) -> Iterator[ObjectStore]:
    """A store with the S3 protocol and the bucket `lake`, which this process and Spark's workers reach."""
    with running_object_store(object_store_port) as store:
        yield store


@pytest.fixture
def iceberg_in_store(object_store: ObjectStore, home: Path, tmp_path: Path) -> str:
    """The address of a table in a catalogue whose warehouse is in the object store."""
    (home / ".pyiceberg.yaml").write_text(
        f"catalog:\n  store:\n    uri: sqlite:///{tmp_path}/c.db\n    warehouse: s3://lake/{uuid4()}\n"
    )
    return "iceberg:store/events.orders"


@pytest.fixture(scope="session")
def event_log(home: Path) -> Path:
    """The folder of Spark's own event log."""
    folder = home / "spark-events"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def spark(home: Path, event_log: Path, object_store_port: int) -> Iterator[SparkSession]:
    from pgsluice.spark.session import spark_session

    session = spark_session(
        "pgsluice tests",
        conf={
            **FAST_JVM,
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": event_log.as_uri(),
            "spark.eventLog.compress": "false",  # a test searches it
            "spark.ui.enabled": "true",  # and these pages
            "spark.ui.port": "0",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def iceberg(home: Path, tmp_path: Path) -> Iterator[str]:
    """The address of the namespace `shop` of a catalogue, configured for this process and for Spark's."""
    config = home / ".pyiceberg.yaml"
    uri, warehouse = f"sqlite:///{tmp_path}/catalogue.db", tmp_path / "a warehouse"
    config.write_text(f"catalog:\n  lake:\n    uri: {uri}\n    warehouse: {warehouse}\n")
    yield "iceberg:lake/shop"
    config.unlink()


@pytest.fixture(params=["delta", "iceberg"])
def current(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    """The current-state tables of a new lake."""
    if request.param == "iceberg":
        return tables_in(request.getfixturevalue("iceberg"))
    return tables_in(tmp_path)


@pytest.fixture
def db(database_18: Database) -> Iterator[psycopg.Connection]:
    """A connection in autocommit mode to this test's database."""
    with database_18.connect() as connection:
        yield connection


@pytest.fixture
def log(db: psycopg.Connection) -> psycopg.Connection:
    """A connection as `db`, with an event log in the database."""
    db.execute("select pgq.create_queue(%s)", (LOG,))
    return db


@pytest.fixture
def data(log: psycopg.Connection) -> psycopg.Connection:
    """The database of `versions_driver.py`: a log, a captured table, and queues."""
    for queue in ("orders", "copied", "copies"):
        log.execute("select pgmq.create(%s)", (queue,))
    log.execute("select pgq.create_queue('changes')")
    log.execute("create table account (id int primary key, name text)")
    log.execute("insert into account select n, 'a' from generate_series(1, 30) as n")
    log.execute("select sluice.capture('account', 'changes')")
    log.execute("select pgmq.send('orders', to_jsonb(n)) from generate_series(1, 35) as n")
    log.execute("select pgq.insert_event('log', 'n', n::text) from generate_series(0, 39) as n")
    return log
