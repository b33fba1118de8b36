"""Handwritten async sources; edit these, then run `make generate`."""
