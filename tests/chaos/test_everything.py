"""Run everything at once and reconcile what was sent with what was delivered.

`chaos/everything/running.py` describes a run and its phases, `chaos/everything/reconciler.py` what
is compared. Each run prints the duration of its phases and its figures. Environment:

    PGSLUICE_TEST_SEED      run with this seed
    PGSLUICE_TEST_WITHOUT   leave out `publication`, `verify` or phases to isolate a failure, for
                            example "publication clock"

The seed decides the load and the order of the faults, but not their timing, so a failed seed may
pass.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from chaos.everything.running import PHASES, Plan, Run

WITHOUT = tuple(os.environ.get("PGSLUICE_TEST_WITHOUT", "").split())


@pytest.fixture
def folders(servers_folder, tmp_path):
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    yield tmp_path, folder
    shutil.rmtree(folder, ignore_errors=True)


def run(plan, folders):
    everything = Run(plan, *folders)
    found = everything.run()
    print(f"{everything.durations}\n{found['figures']}")
    assert not found["violations"], "\n".join(found["violations"])
    return found["figures"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_everything_at_once_loses_and_doubles_nothing(folders, seed):
    """One seed, without promotion and upgrade, which need more servers."""
    plan = Plan(seed, ("crash", "clock", "restore"), phase_s=3.0, without=WITHOUT)
    figures = run(plan, folders)

    assert figures["faults: crash"] == 3
    assert {"faults: clock +259200 s", "faults: restore into lower ids"} <= set(figures)
    assert figures["reinstalls"] > 0
    assert figures["prepared, commit"] > 0
    assert figures["effects in order"] > 100


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_everything_at_once_through_promotion_and_upgrade(folders, seed):
    """Ten seeds through all phases, from PostgreSQL 16 to 18."""
    figures = run(Plan(seed, PHASES, version=16, without=WITHOUT), folders)

    if WITHOUT:
        return
    assert figures["faults: promotion"] == figures["faults: upgrade"] == 1
