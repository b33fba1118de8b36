# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Workers, generated from `_async`."""
