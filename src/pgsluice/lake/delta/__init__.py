"""Delta tables: supported features, files, commits and maintenance jobs."""
