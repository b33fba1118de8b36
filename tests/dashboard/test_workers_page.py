"""The page of workers: what each runs, whether it is live, and what it has settled."""

from __future__ import annotations

import pytest

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import operations
from pgsluice.client.calls.operations import WorkerIdentity
from support.dashboard import unlabelled

TIMES = [
    {
        "source": "queue orders",
        "handler": "pack",
        "max_s": 1.5,
        "buckets": [[0.1, 0.25, 18], [1.0, 2.5, 2]],
    }
]
SLOWEST = [
    {"handler": "pack", "queue": "orders", "msg_id": 70, "seconds": 1.5, "ended_s": 30},
    {"handler": "pack", "queue": "orders", "msg_id": 71, "seconds": 1.2, "ended_s": 60},
]
SCRIPT = "<script>alert(1)</script>"
RUNNING = [
    {"handler": "pack", "queue": "orders", "msg_id": 7, "running_s": 30},
    {"handler": "bill", "log": "audit", "group": "bills", "ev_id": 9, "running_s": 60},
]


@pytest.fixture
def report(connection):
    def report_one(
        worker_id="w1", app="shop", running=RUNNING, counts=None, sources=None, times=(), slowest=()
    ):
        sources = sources or ["queue orders", "log audit group bills", "log audit consumer etl"]
        worker = WorkerIdentity(worker_id, app, "host-1", 4711, "0.1.0", sources, 4)
        counts = counts or {"pack": {"done": 5, "retry": 2}}
        Runner(connection).run(
            operations.report_worker(worker, 90, running, counts, None, times, slowest)
        )

    return report_one


def test_no_workers_names_the_command_that_starts_one(client):
    assert "pgsluice worker run MODULE:APP" in client.get("/workers").text


def test_worker_is_shown_with_its_calls_longest_first(client, report):
    report()

    text = client.get("/workers").text

    assert "1 worker, 1 live" in text
    assert "2 of 4" in text
    assert text.index('href="/event?log=audit&amp;ev_id=9"') < text.index(
        'href="/message?queue=orders&amp;msg_id=7"'
    )
    assert 'href="/group?log=audit&amp;group=bills"' in text
    assert 'href="/consumer?log=audit&amp;consumer=etl"' in text


def test_silent_worker_is_marked_and_listed_first(client, report, connection):
    report("a", "calm")
    report("b", "lost", running=[])
    connection.execute(
        "update sluice.process_report set reported_at = now() - interval '5 min' where process_id = 'b'"
    )

    text = client.get("/workers").text

    assert "silent" in text
    assert text.index(">lost<") < text.index(">calm<")


def test_one_worker_is_shown_with_its_counts_by_handler_and_result(client, report):
    report()

    text = unlabelled(client.get("/workers?worker=w1").text)

    assert "Worker shop on host-1" in text
    assert '<td>retry</td><td class="number">2</td>' in text
    assert 'data-copy="w1"' in text


def test_search_selects_workers_by_source(client, report):
    report("a", "shop")
    report("b", "post", sources=["queue mails"], running=[])

    text = client.get("/workers?search=mails").text

    assert ">post<" in text
    assert ">shop<" not in text


def test_worker_that_has_ended_is_reported(client):
    assert "has ended" in client.get("/workers?worker=none").text


def test_times_of_calls_are_shown_with_links_to_the_slowest_messages(client, report, work):
    work.create("orders")
    work.create("mails")
    report(times=TIMES, slowest=SLOWEST)
    report("w2", times=TIMES, slowest=[{**SLOWEST[0], "msg_id": 72, "seconds": 1.4}])

    for path in ("/workers", "/queue?name=orders"):
        text = unlabelled(client.get(path).text)
        # 18 of 20 calls of each worker are between 0.1 and 0.25 s: the median is the 20th of 36.
        assert '<td class="number">40</td><td class="number">0.183 s</td>' in text
        links = [f'href="/message?queue=orders&amp;msg_id={n}"' for n in (70, 72, 71)]
        assert sorted(links, key=text.index) == links
    one = unlabelled(client.get("/workers?worker=w2").text)
    assert '<td class="number">20</td>' in one
    assert "msg_id=72" in one
    assert "msg_id=70" not in one
    assert "No call has ended in the last five minutes." in client.get("/queue?name=mails").text


def test_calls_of_a_silent_worker_are_not_among_the_slowest(client, report, connection):
    report(times=TIMES, slowest=SLOWEST)
    connection.execute("update sluice.process_report set reported_at = now() - interval '5 min'")

    assert "msg_id=70" not in client.get("/workers?worker=w1").text


def test_names_of_workers_and_handlers_are_escaped(client, report):
    report(
        SCRIPT,
        SCRIPT,
        [{"handler": SCRIPT, "queue": SCRIPT, "msg_id": 1, "running_s": 1}],
        {SCRIPT: {SCRIPT: 1}},
        [f"queue {SCRIPT}", f"log {SCRIPT} group {SCRIPT}"],
        [{**TIMES[0], "source": f"queue {SCRIPT}", "handler": SCRIPT}],
        [{**SLOWEST[0], "handler": SCRIPT, "queue": SCRIPT}],
    )

    for path in ("/workers", f"/workers?worker={SCRIPT}"):
        text = client.get(path).text
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text


def test_role_with_sluice_monitor_sees_workers(monitor, report):
    report()

    assert "1 worker, 1 live" in monitor.get("/workers").text


@pytest.mark.parametrize(
    "page", ["/workers", "/queue?name=orders", "/message?queue=orders&msg_id=1"]
)
def test_page_that_shows_calls_requests_reports_of_workers(client, connection, work, page):
    work.create("orders")
    work.send("orders", 1)
    connection.execute('listen "sluice.reports"')

    assert client.get(page).status_code == 200

    (found,) = connection.notifies(timeout=5, stop_after=1)
    assert found.channel == "sluice.reports"
