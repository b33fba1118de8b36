"""PGMQ's own Python clients with their default settings, which create the extension when they start."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import psycopg
import pytest

from support.official import CLIENTS, OfficialClient, sqlstate_of

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "adopt.md"


pytestmark = pytest.mark.parametrize("peer", [("ours", "18")], indirect=True, ids=["ours-pg18"])


# The clients leave their connections open when the statement fails.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", CLIENTS)
def test_default_client_cannot_create_the_extension(kind, peer):
    with pytest.raises(Exception, match='extension "pgmq" is not available') as raised:
        OfficialClient(kind, peer[1], init_extension=True)

    assert sqlstate_of(raised.value) == "0A000"
    del raised
    gc.collect()
    client = OfficialClient(kind, peer[1], init_extension=False)
    client.create_queue("orders")
    client.shut()


@pytest.mark.parametrize("kind", CLIENTS)
def test_default_client_starts_again_and_again_with_the_empty_extension(
    kind, peer, tmp_path, tmp_path_factory
):
    _, _, rest = GUIDE.read_text().partition("## Clients that create the extension")
    block = re.search(r"```text\n(.*?)```", rest, re.DOTALL)[1]
    for part in re.split(r"^# (?=extension/)", block, flags=re.MULTILINE)[1:]:
        name, _, text = part.partition("\n")
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    base = tmp_path_factory.getbasetemp()
    for folder in (tmp_path / "extension", tmp_path, base, base.parent, base.parent.parent):
        if folder.name.startswith(("pytest-", "popen-")) or folder.is_relative_to(tmp_path):
            folder.chmod(0o755)  # the server runs as another user
    with psycopg.connect(peer[1], autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"alter database {name} set extension_control_path = '{tmp_path}'")

    for _ in range(2):
        client = OfficialClient(kind, peer[1], init_extension=True)
        client.create_queue("orders")
        assert client.send("orders", {"id": 1}) >= 1
        client.shut()
    with psycopg.connect(peer[1], autocommit=True) as connection:
        connection.execute("drop extension pgmq")  # of the next client
