"""Brokers of other libraries over work queues: `taskiq` for Taskiq, `kombu` for Celery.

Each needs its extra: `pip install 'pgsluice[taskiq]'`, `pip install 'pgsluice[celery]'`. Nothing is imported here, so
that each module can say what is missing.
"""
