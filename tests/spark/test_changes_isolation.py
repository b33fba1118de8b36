"""An error of one table parks this table by name, and the others go on."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from pgsluice.errors import CaptureError, ServerError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.current_tables import read_states
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import open_mutable
from pgsluice.pipelines.current_state import event_files
from pgsluice.verify import verify_changes
from spark.conftest import LOG
from spark.test_changes import Place, only_delta, place
from support import value, wait_until

__all__ = ["place"]


def capture(log: psycopg.Connection, name: str, columns: str) -> None:
    log.execute(f"create table {name} ({columns})")  # type: ignore[arg-type]
    log.execute("select sluice.capture(%s, %s)", (name, LOG))


def reasons(place: Place) -> dict[str, str]:
    states = read_states(place.current)
    return {str(name): state.parked for name, state in states.items() if state.parked}


def damage_files(place: Place, name: str) -> None:
    """Overwrite the files of a table, except for their last bytes, which mark the format."""
    table = open_mutable(place.current.place_of(TableName.parse(name)))
    assert table is not None
    for file in table.files():
        path = Path(str(table.folder)) / file.path
        content = path.read_bytes()
        path.write_bytes(b"PAR1" + b"\xff" * (len(content) - 12) + content[-8:])


def damage_log(place: Place, name: str) -> None:
    """Cut off the metadata of the newest version of a table."""
    address = place.current.place_of(TableName.parse(name))
    if isinstance(address, IcebergAddress):
        with opened_catalog(address.catalog) as catalog:
            location = catalog.load_table(address.identifier).metadata_location
        path = Path(location.removeprefix("file://"))
    else:
        path = max(Path(str(address), "_delta_log").glob("*.json"))
    path.write_bytes(path.read_bytes()[:50])


@pytest.mark.slow
@pytest.mark.parametrize("where", ["driver", "executors"])
def test_table_whose_changes_or_files_are_bad_is_parked_beside_healthy_ones(
    place: Place, log: psycopg.Connection, where: str, monkeypatch: pytest.MonkeyPatch
):
    options = {}
    if where == "executors":
        monkeypatch.setattr(event_files, "_EVENTS_ON_DRIVER_MAX", 0)
        options["buckets"] = dict.fromkeys(["public.good", "public.damaged"], 2)
    capture(log, "cased", 'id int primary key, "A" text, a text')
    capture(log, "surrogate", "id int primary key, doc json")
    capture(log, "damaged", "id int primary key, v text")
    capture(log, "unlogged_state", "id int primary key, v text")
    capture(log, "grown", "id int primary key, v text")
    capture(log, "good", "id int primary key, v text")
    log.execute("insert into damaged select n, 'a' from generate_series(1, 9) as n")
    for name in ("unlogged_state", "grown", "good"):
        log.execute(f"insert into {name} values (1, 'a')")  # type: ignore[arg-type]
    assert place.run(**options).progress().parked == ()
    damage_files(place, "public.damaged")
    damage_log(place, "public.unlogged_state")

    log.execute("insert into cased values (1, 'a', 'b')")
    log.execute("""insert into surrogate values (1, '"\\ud800"')""")
    log.execute(
        "select pgq.insert_event(%s, 'sluice.snapshot', 'no mark', 'public.good', null, null, null)",
        (LOG,),
    )
    log.execute("update damaged set v = 'b'; update unlogged_state set v = 'b'")
    log.execute('alter table grown add "V" text; update grown set v = $$b$$')
    log.execute("update good set v = 'b'")

    bad = (
        "public.cased",
        "public.damaged",
        "public.grown",
        "public.unlogged_state",
    )
    for _ in range(2):
        assert place.run(**options).progress().parked == bad
        assert place.equal("public.good")
        assert place.equal("public.surrogate")  # JSON stays text
    assert set(bad) <= verify_changes(LOG, place.lake, dsn=place.dsn).problems.keys()
    for name, reason in reasons(place).items():
        assert reason.endswith(f": pgsluice lake rebuild {name} --lake {place.lake}"), reason


@pytest.mark.slow
@only_delta
def test_snapshot_that_cannot_be_taken_leaves_the_others_complete(
    place: Place, log: psycopg.Connection
):
    capture(log, "good", "id int primary key, v text")
    log.execute("create table uncaptured (id int primary key)")
    log.execute("insert into good values (1, 'a')")
    wanted = ["public.dropped", "uncaptured", "good"]

    with pytest.raises(ServerError, match=r"public\.dropped"):
        place.run(snapshots=wanted)

    assert place.equal("public.good")
    assert read_states(place.current)[TableName("public", "good")].complete_since is not None
    with place.run(once=False, trigger_s=0.1, snapshots=wanted) as stream:
        wait_until(lambda: len(stream.snapshots.failures) == 2, "the errors", 60)
        log.execute("update good set v = 'b'")
        stream.catch_up()
        assert isinstance(stream.snapshots.failures["uncaptured"], CaptureError)
    assert place.equal("public.good")


@pytest.mark.slow
@only_delta
@pytest.mark.parametrize("key", ["primary key", ""], ids=["key", "no key"])
def test_table_with_a_row_too_large_for_a_snapshot_is_parked_beside_healthy_ones(
    place: Place, log: psycopg.Connection, key: str
):
    log.execute(f"create table large (id int {key}, v text)")  # type: ignore[arg-type]
    log.execute("alter table large alter v set storage external")
    log.execute("insert into large values (1, 'a'), (2, repeat('x', 200000))")
    log.execute("""select sluice.capture('large', %s, '{"row_bytes_max": 100000}')""", (LOG,))
    log.execute("create table good (id int primary key, v text)")
    log.execute("insert into good values (1, 'a')")
    log.execute("select sluice.capture('good', %s)", (LOG,))

    for _ in range(2):
        assert place.run(snapshots=["large", "good"]).progress().parked == ("public.large",)
        assert place.equal("public.good")
    assert "no value of v: the row is larger than row_bytes_max" in reasons(place)["public.large"]
    events = "select count(*) from pgq.event_1 where ev_type = 'r' and ev_extra1 = 'public.large'"
    assert value(log, events) == 2  # it is taken once, and not again at the next start


@pytest.mark.slow
@only_delta
def test_tables_that_logutriga_does_not_tell_apart_are_parked_and_both_named(
    place: Place, log: psycopg.Connection
):
    for schema, name in (("a.b", "c"), ("a", "b.c"), ("x.y", "z"), ("x", "y.z")):
        log.execute(f'create schema if not exists "{schema}"')  # type: ignore[arg-type]
        log.execute(f'create table "{schema}"."{name}" (id int primary key)')  # type: ignore[arg-type]
        trigger = "logutriga" if schema != "x" else "jsontriga"
        log.execute(
            f'create trigger z after insert on "{schema}"."{name}" for each row '  # type: ignore[arg-type]
            f"execute function pgq.{trigger}('{LOG}')"
        )
        log.execute(f'insert into "{schema}"."{name}" values ({len(schema)})')  # type: ignore[arg-type]

    parked = place.run().progress().parked

    assert parked == ('a."b.c"', '"a.b".c')
    for reason in reasons(place).values():
        assert 'the same name for the changes of a."b.c" and "a.b".c; capture them' in reason
    assert place.rows('"x.y".z') == [(3,)]
    assert place.rows('x."y.z"') == [(1,)]
