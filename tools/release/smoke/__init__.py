"""A program per extra, run where only this extra is installed; `base.py` runs without any.

They run isolated (`python -I`) on a database of their own, `PGSLUICE_DSN`, and fail with an exception.
"""
