"""Iceberg tables, through pyiceberg: which can be read, their catalogues, commits and jobs."""
