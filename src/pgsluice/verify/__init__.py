"""Compare the lake with PostgreSQL, row by row, without code of the pipelines.

The lake is read with pyarrow, without Spark and Java; PostgreSQL by COPY. Rows are compared by hashes of their values,
partitioned on disk, so that memory use is independent of table size.

report = verify_archive("orders", "/lake/orders")
report.equal        # False
print(report)       # the archive of queue 'orders': 3 rows in PostgreSQL, 2 in the lake: 1 missing
"""

from __future__ import annotations

from pgsluice.verify.archive import verify_archive
from pgsluice.verify.changes import Completeness, verify_changes
from pgsluice.verify.current import verify_current
from pgsluice.verify.events import verify_events
from pgsluice.verify.report import Difference, Kind, Report, Side

__all__ = [
    "Completeness",
    "Difference",
    "Kind",
    "Report",
    "Side",
    "verify_archive",
    "verify_changes",
    "verify_current",
    "verify_events",
]
