"""Addresses of the account page. Signing in and out are in experiments.urls, with the pages."""

from __future__ import annotations

from django.urls import path

from labsite.accounts import pages

urlpatterns = [
    path("", pages.account, name="account"),
    path("tokens", pages.make_token, name="token-make"),
    path("tokens/<int:token_id>/revoke", pages.end_token, name="token-revoke"),
    path("sessions/<int:sign_in_id>/end", pages.end_session, name="session-end"),
    path("sessions/end-others", pages.end_other_sessions, name="sessions-end-others"),
    path("preferences", pages.preferences, name="preferences"),
    path("password", pages.ChangePassword.as_view(), name="password"),
]
