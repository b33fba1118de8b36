"""Lake tables in Delta and Iceberg format: idempotent commits of Parquet files, without Spark or jars.

`table` defines the interface for writers; `delta` and `iceberg` implement it. `jobs` compacts, vacuums and shows
tables. `pgsluice.spark` writes with `lake_sink`, reads with `lake_reading` and merges rows with `upsert`. This package
imports none of its modules, so that each module reports the package it lacks.
"""
