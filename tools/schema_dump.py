"""Write tests/fixtures/schema/schema.sql, what an installation makes: `python tools/schema_dump.py [--check]`.

A change of the schema shows in the diff of this file, whichever way it came about.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from installed import installed_server, write_or_check

GOLDEN = Path(__file__).parent.parent / "tests" / "fixtures" / "schema" / "schema.sql"
# A random token, and versions that change with the programs.
NOISE = re.compile(r"^(\\(un)?restrict .*|-- Dumped (from|by) .*)\n", re.MULTILINE)


def main() -> int:
    """Dump with pg_dump, without what differs between two dumps of one schema."""
    with installed_server() as server:
        schemas = [f"--schema={name}" for name in ("pgmq", "pgq", "pgq_coop", "sluice")]
        dump = subprocess.run(
            [server.bin_dir / "pg_dump", "--schema-only", *schemas, "--dbname", server.url()],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return write_or_check({GOLDEN: NOISE.sub("", dump)}, check="--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
