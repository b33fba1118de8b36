"""The clients, generated from `client/calls`; the runner is written by hand."""
