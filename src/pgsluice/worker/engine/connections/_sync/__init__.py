# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Handwritten async sources; edit these, then run `make generate`."""
