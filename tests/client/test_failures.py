"""Client errors for a missing server, a refused connection and a missing schema."""

from __future__ import annotations

import socket
import tempfile
import traceback
from pathlib import Path

import psycopg
import pytest

from pgsluice.connection import Target, connect
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import (
    _BY_SQLSTATE,
    ArgumentError,
    ConnectionFailedError,
    GroupNotFoundError,
    LogNotFoundError,
    NotInstalledError,
    PayloadError,
    PrivilegeError,
    QueueNameError,
    QueueNotFoundError,
    ServerError,
    translate,
)
from support import on_functions_and_tables, wait_until

SECRET = "s3cr3t-w0rd"


@pytest.fixture(scope="module")
def bare_url(server_18):
    """A database without the schemas."""
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        connection.execute("create database bare")
        yield server_18.url("bare")
        connection.execute("drop database bare with (force)")


@pytest.fixture(scope="module")
def tcp_server(servers_folder):
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "tcp", tcp=True, options={"fsync": "off"})
    server.start()
    yield server
    server.stop("immediate")


@pytest.mark.parametrize(
    "call",
    [
        lambda clients: clients.queue.create("q"),
        lambda clients: clients.queue.list_queues(),
        lambda clients: clients.queue.send("q", 1),
        lambda clients: clients.queue.read("q", 30),
        lambda clients: clients.queue.release("q", 1, 1),
        lambda clients: clients.log.create("l"),
        lambda clients: clients.log.ticker_all(),
        lambda clients: clients.log.insert_event("l", "t", "x"),
        lambda clients: clients.share_group("l", "g").claim(),
    ],
)
def test_a_database_without_the_schema_is_named_as_such_with_a_hint(make, bare_url, call):
    clients = make.pool(bare_url)

    with pytest.raises(NotInstalledError, match="pgsluice schema install"):
        call(clients)


@pytest.mark.parametrize("mode", ["tables"])
@pytest.mark.parametrize(
    "call",
    [
        lambda clients: clients.queue.create("q"),
        lambda clients: clients.queue.list_queues(),
        lambda clients: clients.queue.metrics_all(),
    ],
)
def test_without_the_tables_that_a_table_queue_needs_the_schema_is_named_too(make, bare_url, call):
    clients = make.pool(bare_url)

    with pytest.raises(NotInstalledError, match="pgsluice schema install"):
        call(clients)


@pytest.mark.parametrize(
    ("drop", "call"),
    [
        ("function sluice.list_exports()", lambda clients: clients.archive.list_exports()),
        ("table sluice.export cascade", lambda clients: clients.archive.list_exports()),
        ("function pgmq.metrics(text)", lambda clients: clients.queue.metrics("q")),
        (
            "table sluice.queue_settings cascade",
            lambda clients: clients.queue.set_queue_options("q", paused=True),
        ),
    ],
)
def test_a_schema_older_than_the_package_is_named_with_the_command_that_upgrades_it(
    make, own_url, drop, call
):
    clients = make.pool(own_url)
    clients.queue.create("q")
    with psycopg.connect(own_url) as connection:
        connection.execute(f"drop {drop}")

    with pytest.raises(
        NotInstalledError,
        match="does not exist: the schema in this database is older than this package; "
        "run `pgsluice schema upgrade`$",
    ):
        call(clients)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("insert into public.audit_gone values (1)", 'relation "public.audit_gone" does not exist'),
        ("insert into pgmq.q_gone values (1)", 'relation "pgmq.q_gone" does not exist'),
        ("perform public.gone()", "function public.gone() does not exist"),
        ("perform gone.f()", 'schema "gone" does not exist'),
        ("raise exception 'queue name is too odd'", "queue name is too odd"),
        ("raise exception 'no' using errcode = 'QU001'", "no"),
        ("insert into public.strict values (null)", 'null value in column "v"'),
    ],
)
def test_an_error_of_a_users_trigger_names_its_function_and_no_queue(
    make, own_url, statement, reason
):
    clients = make.pool(own_url)
    clients.queue.create("q")
    with psycopg.connect(own_url) as connection:
        connection.execute("create table public.strict (v integer not null)")
        connection.execute(
            f"""create function public.audit() returns trigger language plpgsql as $$
            begin
                {statement};
                return new;
            end;
            $$;
            create trigger audit before insert on pgmq.q_q for each row execute function public.audit()"""
        )

    with pytest.raises(
        ServerError, match='raised in function ("?)public\\1.("?)audit\\2, which is not'
    ) as caught:
        clients.queue.send("q", 1)

    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    "call",
    [
        lambda clients, queue, log: clients.queue.create("other"),
        lambda clients, queue, log: clients.queue.list_queues(),
        lambda clients, queue, log: clients.queue.send(queue, 1),
        lambda clients, queue, log: clients.queue.read(queue, 30),
        lambda clients, queue, log: clients.queue.reject(queue, 1, 1, "r"),
        lambda clients, queue, log: clients.log.insert_event(log, "t", "x"),
        lambda clients, queue, log: clients.log.ticker(log),
        lambda clients, queue, log: clients.share_group(log, "g").claim(),
        lambda clients, queue, log: clients.share_group(log, "g").accept(1),
    ],
)
def test_role_without_privileges_gets_the_role_to_request(
    make, shared_url, stranger, queue_name, log_name, call
):
    clients = make.connection(shared_url, autocommit=True, user=stranger)

    with pytest.raises(PrivilegeError, match=r"sluice_writer \(send\), sluice_reader") as caught:
        call(clients, queue_name, log_name)

    assert caught.value.sqlstate == "42501"


@pytest.fixture
def stranger(observer):
    observer.execute("create role stranger login")
    yield "stranger"
    observer.execute("drop role stranger")


@on_functions_and_tables
def test_a_writer_may_send_and_not_read(make, shared_url, stranger, queue_name, observer):
    observer.execute("grant sluice_writer to stranger")
    clients = make.connection(shared_url, autocommit=True, user=stranger)

    assert clients.queue.send(queue_name, 1) == 1
    with pytest.raises(PrivilegeError):
        clients.queue.read(queue_name, 30)


def test_a_reader_may_work_and_not_send(make, shared_url, stranger, queue_name, observer):
    observer.execute("select pgmq.send_batch(%s, array['1', '2', '3']::jsonb[])", [queue_name])
    observer.execute("grant sluice_reader to stranger")
    clients = make.connection(shared_url, autocommit=True, user=stranger)

    first, second, third = clients.queue.read(queue_name, 30, 3)
    assert clients.queue.archive(queue_name, first.msg_id)
    assert clients.queue.reject(queue_name, second.msg_id, second.read_ct, "bad")
    assert clients.queue.release(queue_name, third.msg_id, third.read_ct)
    with pytest.raises(PrivilegeError):
        clients.queue.send(queue_name, 1)


def test_a_server_that_is_not_there_is_a_failed_connection(make):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: no other process can use the port
        url = f"postgresql://me:{SECRET}@127.0.0.1:{held.getsockname()[1]}/db"
        clients = make.pool(url, timeout_s=0.5)

        with pytest.raises(ConnectionFailedError, match="check that the server runs") as caught:
            clients.queue.list_queues()

    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.slow
def test_a_wrong_password_is_a_failed_connection_and_is_not_shown(tcp_server):
    url = tcp_server.url()
    with psycopg.connect(url) as connection:
        password = connection.info.password
    assert password
    wrong = Target(url.replace(password, SECRET), "--dsn")

    with pytest.raises(ConnectionFailedError, match="check the user, the password") as caught:
        connect(wrong)

    assert caught.value.__cause__ is not None
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert password not in shown


@on_functions_and_tables
def test_a_session_that_the_server_ends_is_a_failed_connection(make, shared_url, observer):
    clients = make.connection(shared_url, autocommit=True)
    pid = clients.value("select pg_backend_pid()")
    observer.execute("select pg_terminate_backend(%s)", [pid])
    wait_until(
        lambda: observer.execute(
            "select count(*) = 0 from pg_stat_activity where pid = %s", [pid]
        ).fetchone()[0],
        "the session to end",
    )

    for _ in range(2):  # the server reports it the first time, the driver the second
        with pytest.raises(ConnectionFailedError):
            clients.queue.list_queues()


@on_functions_and_tables
def test_a_pool_replaces_a_session_that_the_server_ended(make, shared_url, observer):
    clients = make.pool(shared_url)
    clients.queue.list_queues()
    observer.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )

    with pytest.raises(ConnectionFailedError):
        clients.queue.list_queues()

    assert isinstance(clients.queue.list_queues(), list)


@pytest.mark.parametrize(("sqlstate", "kind"), [*_BY_SQLSTATE.items(), ("ZZ999", ServerError)])
def test_each_sqlstate_that_the_server_raises_gets_its_class_its_words_and_its_hint(
    observer, sqlstate, kind
):
    raising = (
        f"do $$ begin raise exception using errcode = '{sqlstate}', "
        "message = 'the words', hint = 'the way out'; end $$"
    )
    with pytest.raises(psycopg.Error) as caught:
        observer.execute(raising)

    meaning = translate(caught.value)

    assert type(meaning) is kind
    assert meaning.sqlstate == sqlstate
    assert str(meaning) == "the words; the way out"


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda clients: clients.queue.create("a" * 60),
            QueueNameError,
            f"'{'a' * 60}' has 60 bytes",
        ),
        (
            lambda clients: clients.queue.bind_topic("a.#", "nope"),
            QueueNotFoundError,
            "queue 'nope' does not exist; create it with create('nope')",
        ),
        (
            lambda clients: clients.queue.send_batch("q", "abc"),
            ArgumentError,
            "messages is of type str; pass a list of messages",
        ),
        (
            lambda clients: clients.queue.set_queue_options("q", color="red"),
            ArgumentError,
            "queue 'q' has no option 'color'; there are: paused,",
        ),
        (
            lambda clients: clients.queue.set_queue_options("q", max_attempts="many"),
            ArgumentError,
            "queue 'q' cannot have max_attempts \"many\"",
        ),
        (
            lambda clients: clients.queue.set_queue_options("q", archive_retention=object()),
            PayloadError,
            "options",
        ),
        (
            lambda clients: clients.queue.browse("q", since="2026-01-01"),
            ArgumentError,
            "since is '2026-01-01'; use a datetime with a time zone",
        ),
        (
            lambda clients: clients.queue.archive_batch("q", 5),
            ArgumentError,
            "msg_ids is of type int; pass a list of ids",
        ),
        (
            lambda clients: clients.log.set_queue_config("l", "foo", "1"),
            ArgumentError,
            "there is no 'foo'; set ticker_max_count",
        ),
        (
            lambda clients: clients.log.insert_event("nope", "t", "x"),
            LogNotFoundError,
            "create it with create_queue('nope')",
        ),
        (
            lambda clients: clients.share_group("l", "nope").claim(),
            GroupNotFoundError,
            "create it with ShareGroup.create('l', 'nope')",
        ),
    ],
)
def test_a_wrong_argument_is_named_with_the_method_that_helps(make, own_url, call, kind, words):
    clients = make.pool(own_url)
    clients.queue.create("q")
    clients.log.create("l")

    with pytest.raises(kind) as caught:
        call(clients)

    assert words in str(caught.value)
