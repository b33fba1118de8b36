"""Message brokers for other libraries on work queues: `taskiq` for Taskiq, `kombu` for Celery.

Each needs its extra: `pip install 'pgsluice[taskiq]'`, `pip install 'pgsluice[celery]'`. Nothing is imported here, so
that each module can report a missing package.
"""
