"""The formats of Spark: `pgsluice`, `pgsluice-delta` and `pgsluice-iceberg`; they need `pip install 'pgsluice[spark]'`.

`session` finds Java and starts Spark; `source`, `stream`, `batch` and `sink` are the format `pgsluice`. Most users
start with `pgsluice.pipelines`. Nothing is imported here, so that this package can say what is missing.
"""
