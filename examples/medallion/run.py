"""Bring the tables up to date, once: python run.py

Needs pip install 'pgsluice[spark]' 'pyspark[pipelines]'. Everything it makes is in this folder.
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
    ).as_uri(),  # Spark takes no relative one, so this is no file of the example's
    "libraries": [{"glob": {"include": "transformations/**"}}],
}
SETTINGS = {
    # Without it Spark's catalog forgets the tables when it ends, and the second run finds their folders in its way.
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def main() -> int:
    (HERE / "spark-pipeline.yml").write_text(json.dumps(SPEC), encoding="utf-8")  # JSON is YAML
    program = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    # In the environment, not among the settings: Spark shows those.
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
