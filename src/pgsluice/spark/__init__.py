"""Spark data sources `pgsluice`, `pgsluice-delta` and `pgsluice-iceberg`; require `pip install 'pgsluice[spark]'`.

`session` finds Java and starts Spark; `source`, `stream`, `batch` and `sink` implement the format `pgsluice`. Most
users start with `pgsluice.pipelines`. This package imports none of its modules, so that it can report missing packages.
"""
