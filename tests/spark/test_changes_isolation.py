"""An error of one table parks this table by name, and the others go on."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.current_tables import place_of, read_states
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import open_mutable
from pgsluice.pipelines.current_state import event_files
from spark.conftest import LOG
from spark.test_changes import Place, place

__all__ = ["place"]


def capture(log: psycopg.Connection, name: str, columns: str) -> None:
    log.execute(f"create table {name} ({columns})")  # type: ignore[arg-type]
    log.execute("select sluice.capture(%s, %s)", (name, LOG))


def reasons(place: Place) -> dict[str, str]:
    states = read_states(place.current)
    return {str(name): state.parked for name, state in states.items() if state.parked}


def damage_files(place: Place, name: str) -> None:
    """Overwrite the files of a table, except for their last bytes, which mark the format."""
    table = open_mutable(place_of(place.current, TableName.parse(name)))
    assert table is not None
    for file in table.files():
        path = Path(str(table.folder)) / file.path
        content = path.read_bytes()
        path.write_bytes(b"PAR1" + b"\xff" * (len(content) - 12) + content[-8:])


def damage_log(place: Place, name: str) -> None:
    """Cut off the metadata of the newest version of a table."""
    address = place_of(place.current, TableName.parse(name))
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
        "public.surrogate",
        "public.unlogged_state",
    )
    for _ in range(2):
        assert place.run(**options).progress().parked == bad
        assert place.equal("public.good")
    for name, reason in reasons(place).items():
        assert reason.endswith(f": pgsluice lake rebuild {name} --lake {place.lake}"), reason
        print(reason)
