"""Addresses of the lab: health, admin, REST; the pages are those of `experiments`."""

from __future__ import annotations

from django.contrib import admin
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from labsite.api import api


def health(request: HttpRequest) -> JsonResponse:
    """Answers once the database does; what a supervisor or a load balancer asks."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})


urlpatterns = [
    path("health", health, name="health"),
    # Browsers ask for it where a page names no icon, as those of the admin and of the API's documentation do.
    path("favicon.ico", RedirectView.as_view(url=static("icon.svg"))),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("account/", include("labsite.accounts.urls")),
    path("", include("experiments.urls")),
]
