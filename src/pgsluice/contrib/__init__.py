"""Message brokers for other libraries on work queues, and the transactions of frameworks.

`taskiq` is for Taskiq, `kombu` for Celery, `sqlalchemy` for SQLAlchemy, `django` for Django. Each needs its extra, such
as `pip install 'pgsluice[taskiq]'`. Nothing is imported here, so that each module can report a missing package.
"""
