"""Captured changes of tables, and the current state of each table kept by them in the lake.

`envelope` reads events; `collapse` keeps the last change of each row; `columns` gives values their types; `table`
is the table in the lake. `apply` applies changes to it: with `merge` on the driver, or with `buckets` on Spark's
executors, for tables too large for the driver. Only `buckets` needs Spark.
"""
