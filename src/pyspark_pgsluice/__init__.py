"""The format `pgsluice`, where Spark looks for it by itself: in each module whose name begins with `pyspark_`.

Without the extra `spark` there is none. An error here would hide the formats of all such modules.
"""

from contextlib import suppress

__all__ = ["DefaultSource"]

with suppress(ImportError):
    from pgsluice.spark.source import PgsluiceSource as DefaultSource
