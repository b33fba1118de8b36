"""The current-state tables of the lake, maintained from captured changes.

`envelope` parses events; `collapse` reduces them to the last change of each row, and `pieces` does so in tasks;
`columns` maps types; `table` is the current-state table. `apply` applies changes to it: on the driver with `merge`, or
by tasks that rewrite files with `buckets`, if the driver cannot hold them. `applier` decides when, and `pending` keeps
what is not yet applied. Only `event_files` and `applier` need Spark.
"""
