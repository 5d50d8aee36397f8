"""The one place to sign in and out, for the pages and the admin alike: Django's views, each use put on record."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView, LogoutView
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from labsite.accounts.audit import record
from labsite.accounts.models import User


class SignInView(LoginView):
    template_name = "accounts/login.html"

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        assert isinstance(self.request.user, User)
        record(self.request.user, "session.sign_in", self.request.user)
        return response


class SignOutView(LogoutView):
    @transaction.atomic
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if isinstance(request.user, User):
            record(request.user, "session.sign_out", request.user)
        return super().post(request, *args, **kwargs)
