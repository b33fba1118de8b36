"""Settings: the database is that of `PGSLUICE_DSN` or `DATABASE_URL`, else the embedded server."""

from __future__ import annotations

import os

from pgsluice.contrib.django import database

DATABASES = {"default": {**database(), "CONN_MAX_AGE": 60}}

SECRET_KEY = os.environ.get("SECRET_KEY", "for development only")
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
ROOT_URLCONF = "mysite.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["pgsluice.contrib.django", "shop"]

PGSLUICE_APP = "shop.handlers:app"
TASKS = {
    "default": {
        "BACKEND": "pgsluice.contrib.django.tasks.PgsluiceBackend",
        "QUEUES": ["default"],
        "OPTIONS": {"handler": {"mode": "transaction"}},
    }
}
