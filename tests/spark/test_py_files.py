"""The package shipped with the application, to executors and a driver whose Python lacks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import psycopg
import pyspark
import pytest

from pgsluice.spark.java import find_java
from support import value
from support.processes import kill
from support.servers import Database

DEADLINE_S = 600
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("shipped_driver.py")
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
EXECUTORS = 2


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, with a name that Spark adds to the path of Python."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(ROOT)]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S)
    if answer.returncode:
        pytest.skip(f"the wheel cannot be built: {answer.stderr.splitlines()[-1]}")
    (wheel,) = folder.glob("*.whl")
    return wheel.rename(folder / "pgsluice.zip")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the dependencies and without this package."""
    folder = tmp_path_factory.mktemp("dependencies")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
    # The packages of this environment, but not the link to this checkout.
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    found = folder / "bin" / "python"
    check = [str(found), "-c", "import pyarrow, pyspark, psycopg, deltalake; import pgsluice"]
    answer = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert "No module named 'pgsluice'" in answer.stderr
    return found


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_executors_without_the_package_use_the_shipped_wheel(
    shipped: Path,
    python: Path,
    data: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    home: Path,
):
    environ = {"PATH": os.environ["PATH"], "PGSLUICE_HOME": str(home)}
    conf = {
        "spark.pyspark.python": python,
        # The executors of this test would inherit the driver's.
        "spark.executorEnv.PYTHONPATH": "/none",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.local.dir": tmp_path / "local",
    }
    command = [
        str(SPARK_SUBMIT),
        *("--master", f"local-cluster[{EXECUTORS},1,1024]", "--py-files", str(shipped)),
        *(part for name, text in conf.items() for part in ("--conf", f"{name}={text}")),
        *(str(PROGRAM), database_18.url, str(tmp_path / "lake"), str(tmp_path / "found.json")),
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={
                **environ,
                "HOME": str(tmp_path),
                "JAVA_HOME": str(find_java(environ=environ).home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                # For the process that plans a stream, which does not get the shipped files.
                "PYTHONPATH": str(shipped),
            },
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        code = process.wait(DEADLINE_S)
    finally:
        kill(process)
    assert code == 0, (tmp_path / "log").read_text(errors="replace")[-6000:]

    found = json.loads((tmp_path / "found.json").read_text())
    assert "/pgsluice.zip/" in found["driver"]
    assert found["executors"] != []
    assert all("/pgsluice.zip/" in place for place in found["executors"])
    assert found["driver"] not in found["executors"]
    assert found["functions"] > 100  # SQL files in the wheel
    assert found["messages"] == 35
    assert found["events"] == value(data, "select count(*) from pgmq.q_copied") == 40
