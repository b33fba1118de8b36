"""Parts of `make release-check`."""
