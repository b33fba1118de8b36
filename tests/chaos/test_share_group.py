"""A share group whose consumers are killed every second and whose server is stopped as in a power cut."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import psycopg
import pytest

from chaos.running import Plan, Run
from pgsluice import schema
from pgsluice.embedded import EmbeddedServer

MESSAGES = int(os.environ.get("PGSLUICE_CHAOS_MESSAGES", "20000"))
RATE_PER_S = 1000


@pytest.fixture
def seed():
    """Printed when the test fails; to be given again."""
    seed = int(os.environ.get("PGSLUICE_TEST_SEED", random.randrange(2**31)))
    print(f"PGSLUICE_TEST_SEED={seed}")
    return seed


@pytest.fixture
def crashing_server(servers_folder):
    """A server of the test's own; a crash of it alone loses nothing that the operating system has."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "crashing", options={"fsync": "off"})
    server.start()
    with psycopg.connect(server.url()) as connection:
        schema.install(connection)
    yield server
    server.stop("immediate")


@pytest.mark.slow
@pytest.mark.timeout(240 + 4 * MESSAGES / RATE_PER_S)
def test_nothing_is_lost_and_every_redelivery_is_explained(crashing_server, tmp_path, seed):
    """Eight consumers, one killed every second, three crashes. `PGSLUICE_CHAOS_MESSAGES=200000` for the full size."""
    plan = Plan(seed, MESSAGES, RATE_PER_S, consumers=8, lease_s=2.0, crashes=3)

    def crash():
        crashing_server.stop("immediate")
        crashing_server.start()

    run = Run(crashing_server.url(), tmp_path, plan, crash)
    said = run.run()

    print(said["figures"])
    assert said["violations"] == []
    assert run.is_drained
    # And it was a test of something.
    figures = said["figures"]
    assert figures["crashes"] == 3
    assert figures["events"] >= 0.9 * MESSAGES
    for what in (
        *("claims info", "settlements fail", "renewals ok", "refused, lease lost"),
        *("deliveries after lapse", "deliveries after retry", "deliveries after release"),
        *("dead, rejected", "dead, too many attempts"),
    ):
        assert figures.get(what, 0) > 0, what
