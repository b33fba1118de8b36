"""Pages for users of other job queues: programs before and after, and the move, print what the pages show."""

from __future__ import annotations

import re

import pytest
from psycopg.conninfo import conninfo_to_dict

from support import wait_until
from support.object_store import free_port
from support.pages import blocks_in, make_environment, pages, run_block, run_blocks
from support.processes import running
from support.programs import require

PAGES = {page.stem: page for page in pages("coming-from")}
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
# Sections whose blocks use the other package.
BEFORE, MOVE = "Before", "Move the waiting jobs"
VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}  # fmt: skip
# kombu's transport for tests: a broker that is a folder.
FILES_AS_BROKER = """
broker_url = "filesystem://"
broker_transport_options = {{"data_folder_in": "{0}", "data_folder_out": "{0}", "control_folder": "{0}-control"}}
"""


@pytest.fixture
def work(tmp_path):
    """The folder in which the blocks of a page run."""
    work = tmp_path / "work"
    work.mkdir()
    return work


@pytest.fixture
def environ(database_18, work):
    """An environment whose server is set by libpq's variables."""
    server = conninfo_to_dict(database_18.url)
    return make_environment(work) | {
        variable: str(server[name]) for name, variable in VARIABLES.items() if name in server
    }


@pytest.fixture
def redis(tmp_path):
    """The URL of a Redis server that keeps nothing."""
    require("redis-server", purpose="Redis")
    pytest.importorskip("redis", reason="Python's client of Redis is not installed")
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with running(command, tmp_path):
        wait_until(lambda: "Ready to accept" in (tmp_path / "log").read_text(), "Redis to start")
        yield f"redis://127.0.0.1:{port}"


@pytest.fixture
def execute(environ, work):
    """Run a block; return what it prints."""
    return lambda kind, block: run_block(kind, block, work, environ, [])


@pytest.fixture
def run(environ, work):
    """Run the blocks of a page, or of some sections, and compare what they print with the page."""

    def run(page: str, *, without: tuple[str, ...] = ()) -> None:
        sections = SECTION.findall(PAGES[page].read_text(encoding="utf-8"))
        text = "".join(body for title, body in sections if title not in without)
        # A console shows a worker of the other package, which does not end.
        blocks = [block for block in blocks_in(text) if block.kind != "console"]
        assert run_blocks(blocks, work, environ)

    return run


def count_messages(database, order_id: int) -> int:
    with database.connect() as connection:
        found = "select from pgmq.q_pack where message ->> 'order_id' = %s"
        return connection.execute(found, [str(order_id)]).rowcount


@pytest.mark.slow
@pytest.mark.parametrize("page", ["celery", "pgqueuer", "procrastinate", "rq"])
def test_our_program_of_a_page_prints_what_it_shows(run, page):
    run(page, without=(BEFORE, MOVE))


@pytest.mark.slow
def test_page_on_celery_runs_with_a_folder_as_broker(run, work, tmp_path):
    pytest.importorskip("celery", reason="Celery is not installed; pip install 'pgsluice[celery]'")
    folder = tmp_path / "broker"
    folder.mkdir()
    (work / "celeryconfig.py").write_text(FILES_AS_BROKER.format(folder))

    run("celery")


@pytest.mark.slow
def test_tasks_of_a_stopped_celery_worker_are_moved_from_redis(
    run, execute, work, environ, redis, database_18
):
    pytest.importorskip("celery", reason="Celery is not installed; pip install 'pgsluice[celery]'")
    (work / "celeryconfig.py").write_text(f"broker_url = {redis!r}\n")
    run("celery")
    command = ["celery", "-A", "old_shop", "worker", "--concurrency=1", "--loglevel=INFO"]

    execute(
        "python",
        "from old_shop import app, pack; pack.delay(4); pack.apply_async([5], countdown=900)",
    )
    with running(command, work, **environ) as worker:
        wait_until(lambda: (work / "log").read_text().count("] received") == 2, "the tasks")
        wait_until(lambda: "packed order" in (work / "log").read_text(), "the first task to run")
        worker.terminate()
        worker.wait(timeout=30)
    execute("python", "from old_shop import app; app.send_task('other')")

    assert execute("bash", "python move.py") == "moved 1\n"
    left = "from old_shop import app; print(app.connection().SimpleQueue('celery').qsize())"
    assert execute("python", left) == "1\n"

    # As after a move that was killed before it acknowledged.
    again = "from old_shop import pack; pack.apply_async([6], task_id='six')"
    for _ in range(2):
        execute("python", again)
        execute("bash", "python move.py")
    assert count_messages(database_18, order_id=6) == 1


@pytest.mark.slow
def test_page_on_pgqueuer_runs_with_pgqueuer(run):
    pytest.importorskip("pgqueuer", reason="pgqueuer is in the dependency group dev")

    run("pgqueuer")


@pytest.mark.slow
def test_page_on_procrastinate_runs_with_procrastinate(run):
    pytest.importorskip("procrastinate", reason="procrastinate is in the dependency group dev")

    run("procrastinate")


@pytest.mark.slow
def test_page_on_rq_runs_with_redis(run, execute, environ, redis, database_18):
    pytest.importorskip("rq", reason="RQ is in the dependency group dev")
    environ["RQ_REDIS_URL"] = redis

    run("rq")

    # As after a move that was killed before it deleted the job.
    again = "from old_shop import pack, queue; queue.enqueue(pack, 6, job_id='six')"
    for _ in range(2):
        execute("python", again)
        execute("bash", "python move.py")
    assert count_messages(database_18, order_id=6) == 1
