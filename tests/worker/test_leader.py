"""Leader election: one leader at a time, failover, also through a pooler."""

from __future__ import annotations

import contextlib
import threading

import pytest
from psycopg import conninfo

from pgsluice import resolve
from pgsluice.errors import PrivilegeError, ServerError
from pgsluice.worker.engine.claim import start_checks
from pgsluice.worker.upkeep.leader import Leader, Standing
from pgsluice.worker.upkeep.maintainer import Maintainer
from support import value, wait_until
from support.pooler import pooling
from support.proxy import BlackHole


class Leading:
    """A leader election in a thread; the leader's work only sets a flag."""

    def __init__(self, url, **options):
        self.leader = Leader(url, **options)
        self.works = threading.Event()
        self.stop = threading.Event()
        self.error = None
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            self.leader.run(self.stop, self._work)
        except Exception as error:
            self.error = error

    def _work(self, end):
        self.works.set()
        end.wait()
        self.works.clear()

    @property
    def is_over(self):
        return not self._thread.is_alive()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception):
        self.stop.set()
        self._thread.join()


@pytest.fixture
def pooler_url(worker_url, servers_folder):
    with pooling(worker_url, servers_folder) as url:
        yield url


def test_one_works_and_the_other_when_it_ends(worker_url, observer):
    with Leading(worker_url) as second, contextlib.ExitStack() as stack:
        wait_until(second.works.is_set, "the first to lead")
        first, second = second, stack.enter_context(Leading(worker_url))
        wait_until(lambda: second.leader.standing is Standing.STANDBY, "the second to stand by")
        assert not second.works.is_set()
        pid = value(
            observer,
            "select case when is_active then candidate end from sluice.leader('maintenance')",
        )
        assert value(observer, "select application_name from pg_stat_activity where pid = %s", pid)

        first.stop.set()

        wait_until(second.works.is_set, "the second to lead")
        assert not first.works.is_set()


def test_another_leads_when_the_server_ends_the_session_of_the_leader(worker_url, observer):
    with Leading(worker_url) as first, Leading(worker_url) as second:
        wait_until(
            lambda: (
                {first.leader.standing, second.leader.standing}
                == {Standing.LEADER, Standing.STANDBY}
            ),
            "one to lead and one to stand by",
        )

        value(
            observer,
            "select pg_terminate_backend((select case when is_active then candidate end from sluice.leader('maintenance')))",
        )

        wait_until(
            lambda: (
                first.leader.standing is not second.leader.standing
                and {first.leader.standing, second.leader.standing}
                == {Standing.LEADER, Standing.STANDBY}
            ),
            "one of them to lead",
        )


def test_leader_that_another_one_replaced_ends_its_work(worker_url, observer):
    with Leading(worker_url) as first:
        wait_until(first.works.is_set, "the first to lead")

        value(
            observer,
            "select setval('sluice.maintenance_turn', (floor(extract(epoch from clock_timestamp()) * 100)::bigint << 23) | 7)",
        )

        wait_until(lambda: first.leader.standing is Standing.STANDBY, "the first to stand by")
        assert not first.works.is_set()
        wait_until(first.works.is_set, "the first to lead again")


@pytest.mark.slow
def test_another_leads_when_the_network_swallows_the_leader(worker_url, observer):
    folder = conninfo.conninfo_to_dict(worker_url)
    with BlackHole(f"{folder['host']}/.s.PGSQL.{folder['port']}") as hole:
        through = conninfo.make_conninfo(worker_url, host="127.0.0.1", port=hole.port)
        with Leading(through) as first, contextlib.ExitStack() as stack:
            wait_until(first.works.is_set, "the first to lead")
            second = stack.enter_context(Leading(worker_url))
            hole.swallow()

            # The first leader notices, ends its work and stands by on a new connection; the server
            # ends the old one.
            wait_until(lambda: not first.works.is_set(), "the first to notice", 15)
            wait_until(
                lambda: first.works.is_set() or second.works.is_set(), "one of them to lead", 30
            )


def test_one_leads_through_a_pooler_in_transaction_mode(pooler_url, worker_url):
    with Leading(pooler_url) as pooled:
        wait_until(pooled.works.is_set, "the first to lead")
        with Leading(worker_url) as direct:
            wait_until(lambda: direct.leader.standing is Standing.STANDBY, "the second to stand by")
            assert not direct.works.is_set()
            pooled.stop.set()
            wait_until(direct.works.is_set, "the second to lead")
    assert start_checks.require(resolve(pooler_url), []) == {"prepare_threshold": None}


def test_permanent_error_of_the_leader_is_raised(worker_url):
    def work(_end):
        raise ServerError("broken")

    with pytest.raises(ServerError, match="broken"):
        Leader(worker_url).run(threading.Event(), work)


def test_a_role_that_may_not_maintain_leaves_it_to_others(worker_url, observer, caplog):
    observer.execute("drop role if exists no_maintainer; create role no_maintainer login")
    try:
        maintainer = Maintainer(conninfo.make_conninfo(worker_url, user="no_maintainer"))
        with pytest.raises(PrivilegeError):
            maintainer.run(threading.Event())
        caplog.set_level("INFO")
        with maintainer.in_background():
            wait_until(lambda: "maintenance disabled" in caplog.text, "maintenance to be disabled")
    finally:
        observer.execute("drop role no_maintainer")


def test_several_servers_are_asked_for_the_one_that_takes_writes():
    from pgsluice import App
    from pgsluice.worker.process.service import target_of

    def wanted(dsn):
        return conninfo.conninfo_to_dict(target_of(App(dsn), None).conninfo).get(
            "target_session_attrs"
        )

    assert wanted("postgresql://a,b/d") == "read-write"
    assert wanted("postgresql://a,b/d?target_session_attrs=any") == "any"
    assert wanted("postgresql://a/d") is None
    assert target_of(App("host=a"), "host=b").source == "--dsn"
