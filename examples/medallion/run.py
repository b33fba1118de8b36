"""Update the tables once: python run.py

Requires pip install 'pgsluice[spark]' 'pyspark[pipelines]'. All its output is in this folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from pgsluice import resolve
from pgsluice.spark.java import find_java

HERE = Path(__file__).absolute().parent
SPEC = {
    "name": "medallion",
    "storage": (
        HERE / "storage"
    ).as_uri(),  # Spark requires an absolute path, so the spec is generated
    "libraries": [{"glob": {"include": "transformations/**"}}],
}
SETTINGS = {
    # A persistent catalog. With the default one, the second run fails on the existing table folders.
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def main() -> int:
    (HERE / "spark-pipeline.yml").write_text(json.dumps(SPEC), encoding="utf-8")  # JSON is YAML
    program = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    # In the environment, as Spark shows its settings.
    environ = {
        "PGSLUICE_DSN": resolve().conninfo,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
    }
    return subprocess.run(
        [program, "run", "--spec", "spark-pipeline.yml", *settings],
        cwd=HERE,
        env=os.environ | environ,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
