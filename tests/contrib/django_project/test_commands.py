"""Commands of a project, run as processes: tests, migrations, checks, workers; and the admin."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from contrib.django_project.conftest import SETTINGS, manage
from pgsluice import WorkQueue, schema
from pgsluice.contrib.django import database
from support import rows, value


@pytest.mark.parametrize("max_age", ["0", "60", "null"])
def test_tests_of_a_project_run_handlers_and_drop_their_database(max_age, database_18):
    output = manage(
        "test", "contrib.django_project.shop.tests", "--verbosity", "2",
        PGSLUICE_DSN=database_18.url, SHOP_MAX_AGE=max_age, PYTHONWARNINGS="error::ResourceWarning",
    )  # fmt: skip

    assert "\nOK\n" in output
    assert "Destroying test database" in output
    assert "Warning" not in output
    assert "pgsluice.W" not in output  # the test database is not that of PGSLUICE_DSN


def test_migrate_installs_the_schemas_and_zero_keeps_them(empty_database_18):
    variables = {"PGSLUICE_DSN": empty_database_18.url}

    warned = manage("check", "--database", "default", **variables)
    assert "pgsluice.W001" in warned
    assert "`manage.py migrate` installs and upgrades them" in warned
    assert "pgsluice schema install" not in warned
    plan = manage("migrate", "--plan", **variables)
    assert "Install the schemas of pgsluice" in plan
    manage("migrate", **variables)
    with empty_database_18.connect() as connection:
        schema.require(connection)
        WorkQueue(connection).create("packed")
        WorkQueue(connection).send("packed", 1)
        assert "no issues" in manage("check", "--database", "default", **variables)
        assert "No changes detected" in manage("makemigrations", "--check", **variables)

        manage("migrate", "pgsluice", "zero", **variables)
        assert value(connection, "select count(*) from pgmq.q_packed") == 1
        manage("migrate", **variables)
        assert value(connection, "select count(*) from pgmq.q_packed") == 1


def test_sqlmigrate_prints_statements_that_install(empty_database_18):
    printed = manage("sqlmigrate", "pgsluice", "0001", PGSLUICE_DSN=empty_database_18.url)

    with empty_database_18.connect() as connection:
        connection.execute(printed.encode())
        schema.require(connection)


@pytest.mark.slow
def test_second_database_gets_the_schemas_and_its_app_uses_it(
    empty_database_18, make_database_18, tmp_path
):
    other = make_database_18()
    variables = {"PGSLUICE_DSN": empty_database_18.url, "SHOP_OTHER_DSN": other.url}
    manage("migrate", "--database", "other", **variables)
    with other.connect() as connection:
        WorkQueue(connection).create("packed")

    manage("shell", "-c", SEND_TO_OTHER, **variables)
    manage("pgsluice_worker", "contrib.django_project.shop.other:app", "--until-empty", **variables)

    with other.connect() as connection:
        assert rows(connection, "select order_id, note from shop_parcel") == [(1, "other")]
        assert value(connection, "select count(*) from pgmq.a_packed") == 1


@pytest.mark.slow
def test_second_database_gets_no_schemas_if_a_router_refuses(empty_database_18, make_database_18):
    variables = {
        "PGSLUICE_DSN": make_database_18().url,
        "SHOP_OTHER_DSN": empty_database_18.url,
        "SHOP_ROUTER": "contrib.django_project.databases.OnlyInDefault",
    }

    manage("migrate", "--database", "other", **variables)

    with empty_database_18.connect() as connection:
        assert rows(
            connection, "select to_regclass('shop_parcel')::text, to_regnamespace('pgmq')"
        ) == [("shop_parcel", None)]


SEND_TO_OTHER = """
from django.db import transaction
from contrib.django_project.shop.other import pack
with transaction.atomic(using="other"):
    pack.send(1)
"""


@pytest.mark.slow
def test_checks_name_what_is_wrong_with_the_settings(database_18):
    variables = {"PGSLUICE_DSN": database_18.url}

    assert "no issues" in manage("check", **variables)
    refused = manage(
        "check", SHOP_APP="contrib.django_project.shop.handlers:nothing", status=1, **variables
    )
    assert (
        "pgsluice.E002) PGSLUICE_APP: module contrib.django_project.shop.handlers has no nothing"
        in refused
    )
    refused = manage("check", SHOP_ENGINE="django.db.backends.sqlite3", status=1, **variables)
    assert "pgsluice.E001) No database of DATABASES is a PostgreSQL" in refused


def test_check_warns_if_pgsluice_dsn_names_another_database(database_18):
    elsewhere = make_conninfo(database_18.url, dbname="elsewhere")

    warned = manage("check", PGSLUICE_DSN=elsewhere, SHOP_DSN=database_18.url)

    assert "pgsluice.W002) PGSLUICE_DSN names 'elsewhere' at " in warned
    assert f"database 'default' of DATABASES is '{database_18.name}' at " in warned
    assert "pgsluice.contrib.django.dsn()" in warned
    assert "no issues" in manage("check", PGSLUICE_DSN=database_18.url, SHOP_DSN=database_18.url)


def test_dsn_is_the_connection_string_of_a_database_of_the_project(database_18, make_database_18):
    variables = {"PGSLUICE_DSN": "postgresql://127.0.0.1:1/elsewhere", "SHOP_DSN": database_18.url}
    other = make_database_18()

    printed = manage("shell", "-c", PRINT_DSNS, SHOP_OTHER_DSN=other.url, **variables)

    found = [conninfo_to_dict(line)["dbname"] for line in printed.splitlines() if "dbname" in line]
    assert found == [database_18.name, other.name]
    refused = manage(
        "shell", "-c", PRINT_DSNS, status=1, SHOP_ENGINE="django.db.backends.sqlite3", **variables
    )
    assert "database 'default' of DATABASES is not a PostgreSQL" in refused


PRINT_DSNS = """
from pgsluice.contrib.django import dsn
for each in (dsn(), dsn("other")):
    print(each)
"""


def test_database_is_the_entry_of_a_connection_string(monkeypatch):
    monkeypatch.setenv("PGSLUICE_DSN", "postgresql://ann:secret@db.example/shop?sslmode=require")

    assert database() == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "shop",
        "USER": "ann",
        "PASSWORD": "secret",
        "HOST": "db.example",
        "PORT": "",
        "OPTIONS": {"sslmode": "require"},
    }
    assert database("host=a,b port=1,2 dbname=shop")["HOST"] == "a,b"
    monkeypatch.setenv("PGDATABASE", "of the environment")
    assert database("host=a")["NAME"] == "of the environment"


@pytest.mark.slow
def test_worker_runs_all_handlers_of_the_project_in_processes(database_18):
    variables = {"PGSLUICE_DSN": database_18.url}
    manage("migrate", **variables)
    manage("shell", "-c", SEND, **variables)

    output = manage(
        "pgsluice_worker", "--processes", "2", "--until-empty", "--no-maintenance",
        "--log-format", "json", "--handlers", "pack,weigh,label", **variables,
    )  # fmt: skip

    assert output.count('"message": "worker started"') == 2
    with database_18.connect() as connection:
        query = (
            "select note, count(distinct order_id), count(*) from shop_parcel group by 1 order by 1"
        )
        assert rows(connection, query) == [
            ("loop", 20, 20),
            ("process", 20, 20),
            ("thread", 20, 20),
        ]
        assert value(connection, "select count(*) from sluice.dead_letter") == 0


SEND = """
from django.db import connection, transaction
from contrib.django_project.shop.handlers import app, label, pack, weigh
with transaction.atomic():
    app.create_queues(connection)
    for handler in (pack, weigh, label):
        handler.send_many(range(20))
"""


@pytest.mark.slow
def test_worker_explains_a_missing_app_and_wrong_options(database_18):
    variables = {"PGSLUICE_DSN": database_18.url}

    refused = manage("pgsluice_worker", SHOP_APP="", SHOP_TASKS="0", status=3, **variables)
    assert "nothing to run; name the app as MODULE:APP, or set PGSLUICE_APP or TASKS" in refused
    assert "No such option '--nothing'" in manage(
        "pgsluice_worker", "--nothing", status=2, **variables
    )
    assert "`pgsluice worker run`" in manage("pgsluice_worker", "--help", **variables)
    manage(
        "pgsluice_worker", "--settings", SETTINGS, "--until-empty", "--handlers", "pack",
        status=3, **variables,
    )  # fmt: skip  # the queue does not exist


def test_worker_explains_a_database_that_is_not_postgresql(database_18):
    refused = manage(
        "pgsluice_worker", "--until-empty", status=3,
        PGSLUICE_DSN=database_18.url, SHOP_ENGINE="django.db.backends.sqlite3",
    )  # fmt: skip

    assert "database 'default' of DATABASES is not a PostgreSQL" in refused


def test_link_of_the_admin_redirects_only_users_with_the_permission(url, connection):
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    for name in ("ann", "bob", "eve"):
        User.objects.create_user(name, is_staff=name != "eve")
    User.objects.get(username="ann").user_permissions.add(
        Permission.objects.get(codename="view_dashboardlink")
    )
    User.objects.get(username="eve").user_permissions.add(
        Permission.objects.get(codename="view_dashboardlink")
    )
    answers = {}
    for name in ("ann", "bob", "eve"):
        client = Client()
        client.force_login(User.objects.get(username=name))
        index = client.get("/admin/").content.decode()
        answer = client.get("/admin/pgsluice/dashboardlink/")
        answers[name] = "/admin/pgsluice/dashboardlink/" in index, answer.status_code
        if name == "ann":
            assert answer.headers["Location"] == "/ops/pgsluice/"

    assert answers == {"ann": (True, 302), "bob": (False, 403), "eve": (False, 302)}
    anonymous = Client().get("/admin/pgsluice/dashboardlink/")
    assert anonymous.headers["Location"].startswith("/admin/login/")
