"""Install, upgrade, verify, print and remove the schemas `pgmq`, `pgq`, `pgq_coop` and `sluice`.

The SQL is in `sql/`: a baseline and numbered migrations create tables and run once; functions are replaced by every
installation. All functions work in the transaction of the given connection and never commit, so an application can
install in the transaction of its own migration. On a connection in autocommit mode, work on hundreds of queues and
logs takes several transactions.
"""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    from pgsluice.schema.adoption import Adoption as Adoption
    from pgsluice.schema.adoption import adopt as adopt
    from pgsluice.schema.adoption import plan_adoption as plan_adoption
    from pgsluice.schema.catalog import catalog_differences as catalog_differences
    from pgsluice.schema.installation import install as install
    from pgsluice.schema.installation import install_tables as install_tables
    from pgsluice.schema.installation import print_sql as print_sql
    from pgsluice.schema.installation import upgrade as upgrade
    from pgsluice.schema.ledger import ONLY_TABLES as ONLY_TABLES
    from pgsluice.schema.ledger import SERVER_VERSION_MIN as SERVER_VERSION_MIN
    from pgsluice.schema.ledger import has_tables_only as has_tables_only
    from pgsluice.schema.ledger import installed_versions as installed_versions
    from pgsluice.schema.ledger import is_complete as is_complete
    from pgsluice.schema.ledger import require as require
    from pgsluice.schema.removal import uninstall as uninstall
    from pgsluice.schema.repair import missing as missing
    from pgsluice.schema.texts import Migration as Migration
    from pgsluice.schema.verification import Plan as Plan
    from pgsluice.schema.verification import fingerprint as fingerprint
    from pgsluice.schema.verification import plan as plan
    from pgsluice.schema.verification import problems as problems
    from pgsluice.schema.verification import verify as verify
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
