"""Metrics of the database: values, rights, limits, cache and failures."""

from __future__ import annotations

import psycopg
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pgsluice.connection import Target
from pgsluice.ops.metrics.catalog import METRICS
from pgsluice.ops.metrics.collector import DatabaseCollector
from pgsluice.ops.metrics.endpoint import serving, text_of
from support.metrics import fill, names_of, of, samples_of, scrape
from support.servers import Database


@pytest.fixture
def filled(database_18: Database):
    with database_18.connect() as connection:
        fill(connection)
        yield connection


@pytest.fixture
def monitor(database_18: Database):
    """The URL of a role with sluice_monitor only."""
    with database_18.connect() as connection:
        connection.execute("create role watcher login in role sluice_monitor")
        yield Target(psycopg.conninfo.make_conninfo(database_18.url, user="watcher"), "test")
        connection.execute("drop role watcher")


def test_state_is_read_by_a_role_with_sluice_monitor_only(filled, monitor):
    found = samples_of(text_of(DatabaseCollector(monitor)))

    errors = {
        dict(labels)["part"]: n
        for (name, labels), n in found.items()
        if name == "pgsluice_read_errors"
    }
    assert errors == dict.fromkeys(
        ("server", "maintenance", "queues", "workers", "logs", "groups", "schedules", "pipelines"),
        0,
    )
    assert of(found, "pgsluice_up") == 1
    assert of(found, "pgsluice_leader") == 0
    assert of(found, "pgsluice_queues") == 2
    assert (
        of(found, "pgsluice_queue_info", queue="temporary", partitioned="false", unlogged="true")
        == 1
    )
    for name, value in (
        ("ready_messages", 2), ("in_flight_messages", 1), ("retrying_messages", 0),
        ("delayed_messages", 1),
        ("sent_messages_total", 6), ("finished_messages_total", 2), ("dead_messages", 1),
    ):  # fmt: skip
        assert of(found, f"pgsluice_queue_{name}", queue="orders") == value, name
    assert 60 <= of(found, "pgsluice_queue_oldest_ready_seconds", queue="orders") < 120
    assert of(found, "pgsluice_queue_oldest_ready_seconds", queue="temporary") == 0
    assert of(found, "pgsluice_queue_workers", queue="orders") == 1
    assert of(found, "pgsluice_queue_paused", queue="temporary") == 1
    assert of(found, "pgsluice_workers", app="shipping", state="live") == 1
    assert of(found, "pgsluice_log_consumer_lag_events", log="changes", consumer="audit") == 5
    assert of(found, "pgsluice_group_claimed_events", log="changes", group="workers") == 2
    assert of(found, "pgsluice_group_lag_events", log="changes", group="workers") == 3
    assert 3600 <= of(found, "pgsluice_schedule_late_seconds", schedule="nightly") < 3700
    assert of(found, "pgsluice_pipeline_running", log="changes", consumer="lake") == 1
    assert of(found, "pgsluice_maintenance_failing_steps", task="retention") == 1


def test_every_metric_of_the_catalog_is_in_a_scrape_and_no_other(filled, database_18):
    text = text_of(DatabaseCollector(Target(database_18.url, "test")))

    expected = {metric.sample_name for metric in METRICS} - {"pgsluice_notifier_age_seconds"}
    assert (
        names_of(text) - {f"{name.removesuffix('_total')}_created" for name in expected} == expected
    )


def test_text_is_valid_openmetrics(filled, database_18):
    registry = CollectorRegistry()
    registry.register(DatabaseCollector(Target(database_18.url, "test")))

    families = list(text_string_to_metric_families(generate_latest(registry).decode()))

    assert {family.name for family in families} <= {metric.name for metric in METRICS}
    assert all(family.documentation for family in families)


def test_series_are_limited_and_the_omitted_are_counted(filled, database_18):
    filled.execute("select pgmq.create('q' || n) from generate_series(1, 5) as n")

    found = samples_of(text_of(DatabaseCollector(Target(database_18.url, "test"), series_max=3)))

    assert of(found, "pgsluice_queues") == 7
    assert of(found, "pgsluice_omitted", kind="queue") == 4
    assert len([name for name, _ in found if name == "pgsluice_queue_ready_messages"]) == 3


def test_the_database_is_read_once_within_the_cache_time(filled, database_18):
    collector = DatabaseCollector(Target(database_18.url, "test"), cache_s=600)
    with serving(collector, "127.0.0.1", 0, "--port") as port:
        first = scrape(port)
        filled.execute("select pgmq.send('orders', '1')")

        assert scrape(port) == first
        assert scrape(port, accept="application/openmetrics-text; version=1.0.0").endswith(
            "# EOF\n"
        )


def test_a_part_that_exceeds_the_timeout_does_not_hide_the_others(filled, database_18):
    with database_18.connect(autocommit=False) as blocking:
        blocking.execute("lock table pgmq.meta")

        found = samples_of(
            text_of(DatabaseCollector(Target(database_18.url, "test"), timeout_s=0.2))
        )

    assert of(found, "pgsluice_up") == 1
    assert of(found, "pgsluice_read_errors", part="queues") == 1
    assert of(found, "pgsluice_read_errors", part="logs") == 0


def test_a_database_that_is_unreachable_is_down_and_up_afterwards(filled, database_18):
    collector = DatabaseCollector(Target(database_18.url, "test"), cache_s=0)
    assert of(samples_of(text_of(collector)), "pgsluice_up") == 1
    allow = f"alter database {database_18.name} allow_connections"
    with psycopg.connect(database_18.server.url(), autocommit=True) as server:
        server.execute(f"{allow} false")
        down = samples_of(text_of(collector))
        server.execute(f"{allow} true")

    assert of(down, "pgsluice_up") == 0
    assert {name for name, _ in down} == {"pgsluice_up", "pgsluice_read_duration_seconds"}
    assert of(samples_of(text_of(collector)), "pgsluice_up") == 1
