"""Iceberg tables through pyiceberg: supported features, catalogues, commits and maintenance jobs."""
