"""Open tables of the lake, and refuse those that use what is not implemented here.

Every reader and writer asks these modules: the pipelines, the jobs, `verify` and the analytics.
"""
