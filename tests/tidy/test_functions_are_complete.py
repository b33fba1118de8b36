"""Every SQL function has all that a function needs; what is missing is named, function by function."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from support import rows

ROOT = Path(__file__).parents[2]
SQL = ROOT / "src" / "pgsluice" / "sql"
CALLS = ROOT / "src" / "pgsluice" / "client" / "calls"
SCHEMAS = ("pgmq", "pgq", "pgq_coop", "sluice")
DEFINITION = re.compile(r"^create (?:or replace )?function ([a-z_]+)\.(\w+)", re.MULTILINE)

# What anybody may call: state without contents.
FOR_PUBLIC = {
    "pgq.get_consumer_info",
    "pgq.get_queue_info",
    "pgq.quote_fqname",
    "pgq.seq_getval",
    "pgq.version",
}
# Steps of trigger functions, which run as whoever changes the table and whom nobody has granted anything.
STEPS_OF_TRIGGERS = ("pgq._trigger_", "pgq._urlencode")
# The forms that are not pinned. A step that only pinned functions call, with their search_path and rights. Bodies that the
# planner puts in their place, which name nothing without its schema; and trigger functions whose arguments are SQL of their
# users, to be read in the search_path of the session: they do nothing but call pinned functions, and contain no operator.
UNPINNED = {
    "pgmq._reader",
    "pgmq._settler",
    "pgmq.format_table_name",
    "pgq._append_event",
    "pgq._trigger_fire",
    "pgq.insert_event(text,text,text)",
    "pgq.jsontriga",
    "pgq.logutriga",
    "pgq.next_batch",
    "pgq.sqltriga",
    "sluice._begin_capture",
    "sluice._lock_slots",
}
# Public functions that the clients do not call, and why.
WITHOUT_CALL = {
    "pgmq.acquire_queue_lock": "a step of create and drop_queue that PGMQ's own clients call",
    "pgmq.create_non_partitioned": "PGMQ's other name of create",
    "pgmq.create_unlogged": "as pgmq.create",
    "pgmq.detach_archive": "PGMQ's deprecated no-op",
    "pgmq.notify_queue_listeners": "the trigger function of enable_notify_insert",
    "pgmq.validate_queue_name": "a step of create that PGMQ's users call in their SQL",
    "pgmq.validate_routing_key": "a step of sending that PGMQ's users call in their SQL",
    "pgmq.validate_topic_pattern": "a step of bind_topic that PGMQ's users call in their SQL",
    "pgq.batch_event_sql": "PgQ's text of a batch's query; clients ask sluice.batch_query",
    "pgq.batch_event_tables": "PgQ's list of a batch's tables, for those who write their own query",
    "pgq.event_retry_raw": "for programs that copy retries between databases",
    "pgq.find_tick_helper": "a step of next_batch_custom that PgQ's users call in their SQL",
    "pgq.get_batch_cursor": "for PgQ's clients; ours stream what sluice.batch_query gives",
    "pgq.grant_perms": "repairs rights that somebody took away; create_queue has given them",
    "pgq.jsontriga": "a trigger function, named in the statement that creates the trigger",
    "pgq.logutriga": "a trigger function, named in the statement that creates the trigger",
    "pgq.sqltriga": "a trigger function, named in the statement that creates the trigger",
    "pgq.maint_operations": "for PgQ's daemon; ours calls sluice.rotate",
    "pgq.maint_rotate_tables_step1": "for PgQ's daemon; ours calls sluice.rotate",
    "pgq.maint_rotate_tables_step2": "for PgQ's daemon; ours calls sluice.rotate",
    "pgq.maint_tables_to_vacuum": "for PgQ's daemon; ours needs none",
    "pgq.quote_fqname": "a helper that PgQ's users call in their SQL",
    "pgq.seq_getval": "a helper that PgQ's users call in their SQL",
    "pgq.seq_setval": "a helper that PgQ's users call in their SQL",
    "pgq.tune_storage": "a step of create_queue that PgQ's users call after changing tables",
    "pgq.upgrade_schema": "nothing to do: the installer upgrades",
    "sluice.capture_changes": "the trigger function of sluice.capture",
    "sluice.wake_groups": "for SQL loops that call sluice.tick; a Ticker calls sluice.await_groups",
    "sluice.notify_ready": "for pg_cron; a process runs a Notifier, which remembers",
}
IN_CATALOG = """
select n.nspname || '.' || p.proname,
    p.oid::regprocedure::text,
    obj_description(p.oid, 'pg_proc'),
    p.proconfig,
    exists (
        select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
        where a.grantee = 0
    ),
    r.rolname,
    r.rolsuper
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
join pg_roles as r on r.oid = p.proowner
where n.nspname = any (%s)
order by 1
"""


def files():
    folders = [(SQL / schema / "functions") for schema in SCHEMAS]
    found = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path.name != "README.md")


def schema_of(path):
    return path.relative_to(SQL).parts[0]


@pytest.fixture
def catalog(database_18):
    with database_18.connect() as connection:
        return rows(connection, IN_CATALOG, list(SCHEMAS))


def test_a_file_defines_the_function_it_is_named_after_and_no_other():
    wrong = []
    for path in files():
        names = set(DEFINITION.findall(path.read_text()))
        if path.suffix != ".sql" or names != {(schema_of(path), path.stem)}:
            wrong.append(f"{path.relative_to(SQL)} defines {sorted(names)}")

    assert len(files()) > 40
    assert not wrong, "\n".join(wrong)


def test_no_two_files_of_a_schema_have_the_same_name():
    """The installer runs them in the order of their names, whichever folder they are in."""
    names = Counter((schema_of(path), path.name) for path in files())

    assert [name for name, count in names.items() if count > 1] == []


def test_every_function_is_in_a_file_of_its_name(catalog):
    in_files = {f"{schema_of(path)}.{path.stem}" for path in files()}

    assert {name for name, *_ in catalog} == in_files


def test_every_function_is_described_pinned_granted_and_owned_as_it_should_be(catalog):
    missing = []
    for name, signature, comment, settings, public, owner, owner_is_superuser in catalog:
        if not comment:
            missing.append(f"{name}: no comment on function")
        paths = [setting for setting in settings or () if setting.startswith("search_path=")]
        unpinned = signature in UNPINNED or name in UNPINNED
        if paths != ([] if unpinned else ["search_path=pg_catalog, pg_temp"]):
            missing.append(f"{name}: search_path is not pinned to pg_catalog, pg_temp: {paths}")
        if public != (name in FOR_PUBLIC or name.startswith(STEPS_OF_TRIGGERS)):
            missing.append(f"{name}: executable by PUBLIC is {public}")
        if owner_is_superuser or owner != "sluice_owner":
            missing.append(f"{name}: belongs to {owner}")

    assert not missing, "\n".join(missing)


def test_every_function_has_a_test():
    missing = []
    for path in files():
        schema, name = schema_of(path), path.stem
        folder = ROOT / "tests" / "db" / schema
        test = folder / f"test_{name}.py"
        found = test.exists() and "def test_" in test.read_text()
        if not found and name.startswith("_"):
            # An internal one may be covered by the test of a function that stands on it, and names it.
            found = any(name in other.read_text() for other in folder.glob("test_*.py"))
        if not found:
            missing.append(f"{schema}.{name}: no test in tests/db/{schema}/test_{name}.py")

    assert not missing, "\n".join(missing)


def test_every_public_function_has_a_call_or_a_reason_to_have_none():
    text = "\n".join(path.read_text() for path in CALLS.glob("*.py"))
    called = set(re.findall(r"\b((?:pgmq|pgq|pgq_coop|sluice)\.\w+)\(", text))
    public = {f"{schema_of(path)}.{path.stem}" for path in files() if not path.stem.startswith("_")}

    assert public - called == WITHOUT_CALL.keys()
    # Tests let schedules fire at a later time than now.
    assert called - public == {"sluice._fire_schedule"}


def test_every_public_function_is_in_the_reference():
    missing = []
    for path in files():
        schema, name = schema_of(path), path.stem
        page = ROOT / "docs" / "reference" / f"{schema}.md"
        if not name.startswith("_") and not re.search(rf"\b{name}\b", page.read_text()):
            missing.append(f"{schema}.{name}: not in {page.relative_to(ROOT)}")

    assert not missing, "\n".join(missing)
