"""Tables of the lake, Delta's and Iceberg's: written file by file and committed once, without Spark or any jar.

`table` says what a table is to those who write; `delta` and `iceberg` are its two formats. `jobs` compacts, vacuums and
shows tables. `pgsluice.spark` writes to them with `lake_sink`, reads them with `lake_reading` and merges rows with
`upsert`. Nothing is imported here, so that each module can say what is missing.
"""
