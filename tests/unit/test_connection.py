"""Resolution of the DSN, and redaction of passwords."""

from __future__ import annotations

import socket
import traceback

import pytest

from pgsluice.connection import Target, connect, resolve
from pgsluice.errors import ConfigurationError, ConnectionFailedError
from pgsluice.settings import Settings

SECRET = "s3cr3t-w0rd"
ALL = {
    "PGSLUICE_DSN": "postgresql://sluice/one",
    "DATABASE_URL": "postgresql://database/two",
    "PGHOST": "libpq",
    "PGDATABASE": "three",
}


def without(environ, *names):
    return {name: text for name, text in environ.items() if name not in names}


def test_an_explicit_dsn_comes_first():
    assert resolve("postgresql://given/zero", environ=ALL) == Target(
        "postgresql://given/zero", "--dsn"
    )


def test_then_our_own_variable():
    assert resolve(environ=ALL) == Target("postgresql://sluice/one", "PGSLUICE_DSN")


def test_then_the_variable_that_platforms_set():
    target = resolve(environ=without(ALL, "PGSLUICE_DSN"))

    assert target == Target("postgresql://database/two", "DATABASE_URL")


def test_then_libpq_decides_from_its_own_variables_which_are_named():
    target = resolve(environ=without(ALL, "PGSLUICE_DSN", "DATABASE_URL"))

    assert target == Target("", "libpq environment (PGHOST, PGDATABASE)")


@pytest.mark.parametrize("name", ["PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE"])
def test_each_variable_that_says_where_the_server_is_counts(name):
    assert resolve(environ={name: "5"}).source == f"libpq environment ({name})"


def test_variables_naming_only_the_user_are_ignored(tmp_path):
    environ = {"PGUSER": "me", "PGPASSWORD": SECRET, "PGSLUICE_HOME": str(tmp_path)}

    assert resolve(environ=environ, start_embedded=False).source == "embedded server"


def test_last_comes_the_embedded_server_and_naming_it_writes_nothing(tmp_path):
    environ = {"PGSLUICE_HOME": str(tmp_path)}

    target = resolve(environ=environ, start_embedded=False)

    assert target.source == "embedded server"
    assert "dbname=postgres" in target.safe
    assert list(tmp_path.iterdir()) == []


def test_settings_that_were_loaded_decide_where_the_embedded_server_is(tmp_path):
    given = Settings.load(home=tmp_path / "a", environ={})

    target = resolve(settings=given, environ={}, start_embedded=False)

    assert target == resolve(environ={"PGSLUICE_HOME": str(tmp_path / "a")}, start_embedded=False)


BLANK = ["", " ", "\t\n"]


@pytest.mark.parametrize("blank", BLANK)
def test_empty_dsn_argument_is_refused_and_does_not_fall_through(blank):
    with pytest.raises(ConfigurationError, match="the DSN from --dsn is empty"):
        resolve(blank, environ=ALL, start_embedded=False)


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize(
    "name",
    ["PGSLUICE_DSN", "DATABASE_URL", "PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE"],
)
def test_variable_that_is_set_but_empty_is_refused_and_does_not_fall_through(name, blank, tmp_path):
    environ = {name: blank, "PGSLUICE_HOME": str(tmp_path)}

    with pytest.raises(ConfigurationError, match=f"{name} is set but empty; .*unset it"):
        resolve(environ=environ, start_embedded=False)


def test_empty_variable_is_not_read_when_an_earlier_rule_decides():
    environ = {"PGSLUICE_DSN": "postgresql://sluice/one", "DATABASE_URL": "", "PGHOST": ""}

    assert resolve(environ=environ).source == "PGSLUICE_DSN"
    assert resolve("postgresql://given/zero", environ={"PGSLUICE_DSN": ""}).source == "--dsn"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://me:{SECRET}@host:5433/db",
        f"host=host port=5433 user=me dbname=db password={SECRET}",
        f"postgresql://me@host:5433/db?password={SECRET}",
        f"postgresql://me@host:5433/db?sslpassword={SECRET}",
        f"postgresql://me@host:5433/db?passfile=/{SECRET}",
        f"postgresql://me@host:5433/db?options=-c%20app.token%3D{SECRET}",
        f"postgresql://me:one?{SECRET}@host:5433/db",
        f"postgresql://me:one#{SECRET}@host:5433/db",
        f"postgresql://me:one[{SECRET}]@host:5433/db",
        f"postgresql://me:one:{SECRET}@host:5433/db",
        f"postgresql://me:one%2F{SECRET}@host:5433/db?user=me@tenant",
    ],
)
def test_a_target_shown_to_a_person_holds_no_secret(dsn):
    target = resolve(dsn)

    assert SECRET not in f"{target} {target!r} {target.safe}"
    assert "host=host" in target.safe
    assert "dbname=db" in target.safe
    assert target.conninfo == dsn


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://me:{SECRET} two@host/db",
        f"host=host password={SECRET} two dbname=db",
        f"postgresql://me:{SECRET}%zz@host/db",
        f"postgresql://me:one@{SECRET}@host/db",
        f"postgresql://me:{SECRET}/two@host:5432/db",
        f"postgresql://me:one/{SECRET}@host:5432/db",
        f"postgresql://me:1234/{SECRET}@host/db",
        f"postgresql://me:1/two?user={SECRET}@host/db",
        f"postgresql://me:one@{SECRET}/two@host/db",
        f"postgresql://me:one,{SECRET}/two@host,other/db",
        f"postgresql://me:{SECRET}%abc@host/db",
        f"postgresql://me:%41{SECRET}/two@host/db",
        f"postgresql://:{SECRET}/two@host/db",
        f"postgresql://me:one/{SECRET}@host?sslmode=disable",
        f"host=host dbname=postgresql://me:{SECRET}@host/db",
        f"host=me:{SECRET}@host",
        f"host=host port={SECRET}",
        f"host=host password='one {SECRET}",
        f"host=host password=one\\ two {SECRET} dbname=db",
        f"POSTGRESQL://me:{SECRET}@host/db",
        f"//me:{SECRET}@host/db",
    ],
)
def test_a_dsn_that_cannot_be_parsed_is_refused_without_a_trace_of_its_password(dsn):
    with pytest.raises(ConfigurationError, match="the DSN from --dsn cannot be parsed") as caught:
        resolve(dsn)

    assert "percent-encoded" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_url_in_a_variable_for_a_name_is_refused_without_a_trace_of_its_password():
    with pytest.raises(ConfigurationError, match="PGDATABASE holds a URL") as caught:
        resolve(environ={"PGDATABASE": f"postgresql://me:{SECRET}@host/db"})

    assert SECRET not in str(caught.value)


def test_the_variable_whose_dsn_cannot_be_parsed_is_named():
    with pytest.raises(ConfigurationError, match="the DSN from DATABASE_URL cannot be parsed"):
        resolve(environ={"DATABASE_URL": "host=a b"})


def test_a_server_that_is_not_there_is_named_without_the_password():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: no other process can use the port
        port = held.getsockname()[1]
        target = Target(f"postgresql://me:{SECRET}@127.0.0.1:{port}/db", "--dsn")

        with pytest.raises(ConnectionFailedError) as caught:
            connect(target)

    message = str(caught.value)
    assert f"port={port}" in message
    assert "(from --dsn)" in message
    assert "check that the server runs there" in message
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_an_embedded_server_that_does_not_run_is_named_with_the_command_that_starts_it(tmp_path):
    target = resolve(environ={"PGSLUICE_HOME": str(tmp_path)}, start_embedded=False)

    with pytest.raises(ConnectionFailedError, match="start it with `pgsluice embedded start`"):
        connect(target)


def test_connect_takes_a_dsn_and_names_its_server_without_the_password():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening
        port = held.getsockname()[1]

        with pytest.raises(
            ConnectionFailedError, match=rf"port={port}.*\(from connect\(\)\)"
        ) as caught:
            connect(f"postgresql://me:{SECRET}@127.0.0.1:{port}/db")

    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_connect_without_a_target_resolves_it(monkeypatch):
    monkeypatch.setenv("PGSLUICE_DSN", " ")
    with pytest.raises(ConfigurationError, match="PGSLUICE_DSN"):
        connect()

    with pytest.raises(ConfigurationError, match=r"the DSN from connect\(\) is empty"):
        connect("")


def test_a_url_in_the_place_of_a_shard_name_is_not_quoted():
    import click

    from pgsluice.cli.types import dsns_by_name

    url = f"postgresql://me:{SECRET}@host/db?user=me"
    with pytest.raises(click.BadParameter, match="write NAME=DSN") as caught:
        dsns_by_name(None, None, (url,))
    assert SECRET not in str(caught.value)
