"""Captured changes of tables, and the current state of each table kept by them in the lake.

`envelope` reads events; `collapse` keeps the last change of each row; `columns` gives values their types; `table`
is the table in the lake, `merge` and `buckets` are the two ways to apply changes to it. Only `buckets` needs Spark.
"""
