"""The pipelines that ship, one module each. Nothing is imported here; see the package above."""
