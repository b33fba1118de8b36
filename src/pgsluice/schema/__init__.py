"""Install, upgrade, verify, print and remove the schemas `pgmq`, `pgq`, `pgq_coop` and `sluice`.

The SQL is in `sql/`: a baseline and numbered migrations create tables and run once; functions are replaced by every
installation. All functions work in the transaction of the given connection and never commit, so an application can
install in the transaction of its own migration. On a connection in autocommit mode, work on hundreds of queues and
logs takes several transactions.
"""

from __future__ import annotations

from pgsluice.schema.adoption import Adoption, adopt, plan_adoption
from pgsluice.schema.catalog import catalog_differences
from pgsluice.schema.installation import install, install_tables, print_sql, upgrade
from pgsluice.schema.ledger import (
    ONLY_TABLES,
    SERVER_VERSION_MIN,
    has_tables_only,
    installed_versions,
    is_complete,
    require,
)
from pgsluice.schema.removal import uninstall
from pgsluice.schema.repair import missing
from pgsluice.schema.texts import Migration
from pgsluice.schema.verification import Plan, fingerprint, plan, problems, verify

__all__ = [
    "ONLY_TABLES",
    "SERVER_VERSION_MIN",
    "Adoption",
    "Migration",
    "Plan",
    "adopt",
    "catalog_differences",
    "fingerprint",
    "has_tables_only",
    "install",
    "install_tables",
    "installed_versions",
    "is_complete",
    "missing",
    "plan",
    "plan_adoption",
    "print_sql",
    "problems",
    "require",
    "uninstall",
    "upgrade",
    "verify",
]
