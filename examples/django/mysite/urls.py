"""Addresses of the project."""

from __future__ import annotations

from django.urls import path
from shop import views

urlpatterns = [
    path("orders", views.place),
    path("orders/<int:order_id>", views.order),
    path("orders/<int:order_id>/label", views.label),
    path("orders/<int:order_id>/invoice", views.send_invoice),
    path("tasks/<str:result_id>", views.task),
]
