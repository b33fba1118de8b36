"""The 17 functions of PGMQ 0.20: signatures, installation, upgrade and removal."""

import re
import subprocess
from pathlib import Path

import pytest

from pgsluice import schema
from pgsluice.errors import SchemaError
from pgsluice.schema import texts
from support import rows, value

MESSAGE = (
    "TABLE(msg_id bigint, read_ct integer, enqueued_at timestamp with time zone, "
    "vt timestamp with time zone, message jsonb)"
)
METRICS = (
    "TABLE(queue_name text, queue_length bigint, newest_msg_age_sec integer, oldest_msg_age_sec integer, "
    "total_messages bigint, scrape_time timestamp with time zone)"
)
# The output of psql's \df in a database with PGMQ 0.20.
FUNCTIONS = [
    ("pgmq_archive", "queue_name text, msg_id bigint", "boolean"),
    ("pgmq_archive", "queue_name text, msg_ids bigint[]", "boolean"),
    ("pgmq_create", "queue_name text", "void"),
    ("pgmq_create_non_partitioned", "queue_name text", "void"),
    (
        "pgmq_create_partitioned",
        "queue_name text, partition_interval text DEFAULT '10000'::text, retention_interval text DEFAULT '100000'::text",
        "void",
    ),
    ("pgmq_delete", "queue_name text, msg_id bigint", "boolean"),
    ("pgmq_delete", "queue_name text, msg_ids bigint[]", "boolean"),
    ("pgmq_drop_queue", "queue_name text, partitioned boolean DEFAULT false", "boolean"),
    ("pgmq_list_queues", "", "TABLE(queue_name text, created_at timestamp with time zone)"),
    ("pgmq_metrics", "queue_name text", METRICS),
    ("pgmq_metrics_all", "", METRICS),
    ("pgmq_pop", "queue_name text", MESSAGE),
    ("pgmq_read", 'queue_name text, vt integer, "limit" integer', MESSAGE),
    (
        "pgmq_read_with_poll",
        'queue_name text, vt integer, "limit" integer, poll_timeout_s integer DEFAULT 5, poll_interval_ms integer DEFAULT 250',
        MESSAGE,
    ),
    ("pgmq_send", "queue_name text, message jsonb", "bigint"),
    ("pgmq_send_batch", "queue_name text, messages jsonb[], delay bigint DEFAULT 0", "TABLE(msg_id bigint)"),
    ("pgmq_set_vt", "queue_name text, msg_id bigint, vt_offset integer", MESSAGE),
]  # fmt: skip
LISTED = """
select p.proname::text, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
from pg_proc as p where p.pronamespace = 'public'::regnamespace order by 1, 2
"""


def test_they_are_in_public_as_psql_lists_them(legacy):
    assert rows(legacy, LISTED) == FUNCTIONS


def test_without_being_asked_for_they_are_not_there(connection):
    assert rows(connection, LISTED) == []


@pytest.mark.slow
def test_each_is_described_pinned_granted_and_owned_like_the_others(legacy):
    wrong = rows(
        legacy,
        """select p.oid::regprocedure::text from pg_proc as p
        where p.pronamespace = 'public'::regnamespace and (
            obj_description(p.oid, 'pg_proc') is null
            or 'search_path=pg_catalog, pg_temp' <> all (p.proconfig)
            or pg_get_userbyid(p.proowner) <> 'sluice_owner'
            or not has_function_privilege('sluice_admin', p.oid, 'execute')
            or exists (select from aclexplode(p.proacl) as a where a.grantee = 0)
        )""",
    )

    assert wrong == []


@pytest.mark.slow
def test_upgrade_keeps_them_current_without_an_option(legacy):
    legacy.execute(
        "drop function public.pgmq_pop(text); revoke execute on function pgmq_send from sluice_writer"
    )
    assert {line.split("(")[0] for line in schema.verify(legacy)} == {
        "-function public.pgmq_send", "+function public.pgmq_pop", "+function public.pgmq_send",
    }  # fmt: skip

    schema.upgrade(legacy)

    assert schema.verify(legacy) == ()
    assert rows(legacy, LISTED) == FUNCTIONS
    assert "legacy/0001_names" in schema.installed_versions(legacy)


@pytest.mark.slow
def test_uninstalling_removes_them_and_what_is_not_ours_stays(legacy):
    legacy.execute("create function public.pgmq_mine() returns integer return 1")

    schema.uninstall(legacy, drop_data=True)

    assert rows(legacy, LISTED) == [("pgmq_mine", "", "integer")]


@pytest.mark.slow
def test_the_printed_file_has_them_when_asked(empty_database, legacy, tmp_path):
    file = tmp_path / "pgsluice.sql"
    file.write_text(schema.print_sql(legacy=True), encoding="utf-8")

    psql = Path(empty_database.server.bin_dir) / "psql"
    command = [psql, "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", file, empty_database.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    with empty_database.connect() as printed:
        assert schema.fingerprint(printed) == schema.fingerprint(legacy)
    assert "pgmq_create" not in schema.print_sql()


def test_functions_of_the_same_names_are_not_overwritten(connection):
    connection.execute("create function public.pgmq_send(a text) returns integer return 1")

    with pytest.raises(
        SchemaError,
        match=r"schema public already has objects of these names: public.pgmq_send\(text\); rename them",
    ):
        schema.install(connection, legacy=True)

    assert value(connection, "select pgmq_send('x')") == 1
    assert "legacy/0001_names" not in schema.installed_versions(connection)


def test_pgmq_meta_lists_the_queues(legacy):
    meta = rows(legacy, "select queue_name, created_at from public.pgmq_meta")

    assert meta == rows(legacy, "select queue_name, created_at from pgmq.meta")
    assert len(meta) == 1


@pytest.mark.slow
def test_pgmq_meta_is_created_again_and_removed_with_the_others(legacy):
    legacy.execute("drop view public.pgmq_meta")
    assert next(line.split()[0:2] for line in schema.verify(legacy)) == [
        "+column",
        "public.pgmq_meta.created_at",
    ]

    schema.upgrade(legacy)
    assert schema.verify(legacy) == ()
    schema.uninstall(legacy, drop_data=True)

    assert value(legacy, "select to_regclass('public.pgmq_meta')") is None


def test_every_one_has_a_file_of_its_name_and_a_test():
    files = [re.findall(r"function public\.(\w+)", text)[0] for text in texts.functions(legacy=True)
             if "function public." in text]  # fmt: skip
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_pgmq_*.py"))

    assert sorted(files) == sorted({name for name, *_ in FUNCTIONS})
    assert [name for name in files if f"{name}(" not in tests] == []
