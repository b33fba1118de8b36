"""Settings of the project that tests run: its database is that of SHOP_DSN or PGSLUICE_DSN."""

from __future__ import annotations

import os

from contrib.django_project.databases import database_of

SECRET_KEY = "a secret of the tests"
USE_TZ = os.environ.get("SHOP_USE_TZ", "1") == "1"
TIME_ZONE = "Europe/Berlin"
DATABASES = {"default": database_of(os.environ.get("SHOP_DSN") or os.environ["PGSLUICE_DSN"])}
if "SHOP_OTHER_DSN" in os.environ:
    DATABASES["other"] = database_of(os.environ["SHOP_OTHER_DSN"])
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "pgsluice.contrib.django",
    "contrib.django_project.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "contrib.django_project.urls"
ALLOWED_HOSTS = ["*"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TASKS = {
    "default": {
        "BACKEND": "pgsluice.contrib.django.tasks.PgsluiceBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"priorities": 3},
    }
}
if "other" in DATABASES:
    TASKS["other"] = {
        "BACKEND": "pgsluice.contrib.django.tasks.PgsluiceBackend",
        "QUEUES": ["reports"],
        "OPTIONS": {"database": "other"},
    }
DATABASE_ROUTERS = list(filter(None, [os.environ.get("SHOP_ROUTER")]))
if os.environ.get("SHOP_TASKS") == "0":
    TASKS = {}
PGSLUICE_APP = os.environ.get("SHOP_APP", "contrib.django_project.shop.handlers:app") or None
PGSLUICE_DASHBOARD_URL = "/ops/pgsluice/"
