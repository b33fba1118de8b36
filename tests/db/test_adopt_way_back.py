"""The return to PGMQ in docs/guides/adopt.md: its functions are restored and all messages kept."""

import re
import subprocess
from pathlib import Path

import pytest

from pgsluice import schema
from support import rows, value
from support.adopt import contents, fill
from support.pgmq import upstream_sql

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "adopt.md"
FUNCTIONS = """
select p.oid::regprocedure::text, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), md5(p.prosrc)
from pg_proc as p where p.pronamespace = 'pgmq'::regnamespace order by 1
"""


@pytest.mark.slow
def test_the_guide_leads_back_to_pgmq_with_every_message(empty_database, tmp_path):
    [script] = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "pgmq.sql").write_text(upstream_sql())
    (tmp_path / "back.sql").write_text(script)
    with empty_database.connect() as connection:
        connection.execute(upstream_sql())
        fill(connection)
        connection.execute("select pgmq.enable_notify_insert('orders', 40)")
        connection.execute("create function pgmq.mine() returns integer return 1")
        functions = rows(connection, FUNCTIONS)
        schema.adopt(connection)
        connection.execute("select pgmq.send('orders', '1'::jsonb), pgmq.read('orders', 60, 1)")
        before = contents(connection)

        psql = [Path(empty_database.server.bin_dir) / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(
            [*psql, "-f", "back.sql", empty_database.url],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

        assert done.returncode == 0, done.stderr
        assert contents(connection) == before
        assert rows(connection, FUNCTIONS) == functions
        assert rows(connection, "select queue_name, throttle_interval_ms from pgmq.list_notify_insert_throttles()") == [
            ("orders", 40)
        ]  # fmt: skip
        assert value(connection, "select pgmq.send('orders', '1'::jsonb)") == 1102
        assert rows(connection, "select msg_id from pgmq.read('orders', 9, 1)") == [(102,)]
        assert schema.installed_versions(connection) == ()
        assert schema.adopt(connection) != ()
