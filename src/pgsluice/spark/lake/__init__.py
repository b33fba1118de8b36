"""Tables of the lake: written by Spark's executors, committed once by its driver, without any jar.

`table` says what a table is to those who write; `delta` and `iceberg` are its two formats. `jobs` keeps tables quick
and small, `reading` reads them back, `merge` replaces rows by key. Nothing is imported here, so that the package
above can say what is missing.
"""
