"""Tables of the lake: written by Spark's executors, committed once by its driver, without any jar.

`delta` is the format `pgsluice-delta`; `reading` reads a table back. Nothing is imported here, so that the
package above can say what is missing.
"""
