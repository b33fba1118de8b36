"""Generate the lists of installed objects: `python tools/schema_dump.py [--check]`.

Every change of the schema appears in the diff of tests/fixtures/schema.txt. It is derived from pg_dump's output:
functions, tables, types, indexes, owners other than `sluice_owner`, and grants. A function's body is replaced by its
hash; bodies and comments are in the files of `src/pgsluice/sql`. There, catalog.txt has the rows of `catalog.sql`, with
which `verify` compares, and objects.jsonl has each object with the statement that creates it, for repairs.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import psycopg

from installed import installed_server, write_or_check
from pgsluice.schema.catalog import catalog_text
from pgsluice.schema.texts import fetch, pinned, read

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "fixtures" / "schema.txt"
CATALOG = ROOT / "src" / "pgsluice" / "sql" / "catalog.txt"
OBJECTS = ROOT / "src" / "pgsluice" / "sql" / "objects.jsonl"
_BODY = re.compile(r"AS (\$\w*\$)(.*?)\1;", re.DOTALL)
_COMMENT = re.compile(r"^COMMENT ON .*? IS '(?:[^']|'')*';\n", re.MULTILINE)
# Blank lines, comments of pg_dump, its settings and random token, and the common owner.
_NOISE = re.compile(
    r"^(--.*|\\(un)?restrict .*|SET .*|SELECT pg_catalog.set_config.*|ALTER .* OWNER TO sluice_owner;)?\n",
    re.MULTILINE,
)
_OPTION = re.compile(r"\n    (?=(?:LANGUAGE|SET|AS) )")
_RIGHT = re.compile(r"^GRANT (?P<right>.+) TO (?P<role>\w+);$")


def shortened(dump: str) -> str:
    """Return a dump with one line per function and per grant, and a hash for each body."""
    dump = _BODY.sub(
        lambda body: f"AS '{hashlib.sha256(body[2].encode()).hexdigest()[:16]}';", dump
    )
    dump = _OPTION.sub(" ", _NOISE.sub("", _COMMENT.sub("", dump)))
    lines: list[str] = []
    for line in dump.splitlines():
        right = _RIGHT.match(line)
        if right and lines and lines[-1].startswith(f"GRANT {right['right']} TO "):
            lines[-1] = f"{lines[-1].removesuffix(';')}, {right['role']};"
        else:
            lines.append(line)
    return "\n".join([*lines, ""])


def main() -> int:
    """Run pg_dump, and write or compare the result."""
    with installed_server() as server:
        schemas = [f"--schema={name}" for name in ("pgmq", "pgq", "pgq_coop", "sluice")]
        dump = subprocess.run(
            [server.bin_dir / "pg_dump", "--schema-only", *schemas, "--dbname", server.url()],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        with psycopg.connect(server.url()) as connection, pinned(connection):
            catalog = catalog_text(connection)
            found = fetch(connection, read("objects.sql"))
    objects = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in found)
    return write_or_check(
        {GOLDEN: shortened(dump), CATALOG: catalog, OBJECTS: objects}, check="--check" in sys.argv
    )


if __name__ == "__main__":
    sys.exit(main())
