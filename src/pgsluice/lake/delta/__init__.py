"""Delta tables: which can be opened, their files, commits and jobs."""
