"""The account page: a person's own API tokens, sessions, password, theme and time zone."""

from __future__ import annotations

import datetime as dt
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.auth.views import PasswordChangeView
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse_lazy
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from labsite.accounts.audit import record
from labsite.accounts.models import ApiToken, Membership, Theme, User
from labsite.accounts.preferences import BadPreference, set_preferences, time_zones
from labsite.accounts.sign_ins import end_other_sign_ins, end_sign_in, sign_ins_of
from labsite.accounts.tokens import TokenRefused, create_token, revoke_token, tokens_of

TOKENS_SHOWN = 100
LIVES = {"30": "30 days", "90": "90 days", "365": "a year", "": "until it is revoked"}


def _person(request: HttpRequest) -> User:
    return cast(User, request.user)


@login_required
def account(request: HttpRequest) -> HttpResponse:
    return _page(request)


@login_required
@require_POST
@never_cache
def make_token(request: HttpRequest) -> HttpResponse:
    """Shows the token in the answer and keeps it nowhere; whoever loses it makes another."""
    name, life = request.POST.get("name", "").strip(), request.POST.get("life", "")
    try:
        new = create_token(_person(request), name, _expiry(life))
    except TokenRefused as error:
        fault = {error.field: f"{error.message}; allowed: {error.allowed}"}
        return _page(request, token_faults=fault, token_name=name, token_life=life, status=422)
    return _page(request, new_token=new.plain, new_token_name=name, status=201)


def _expiry(life: str) -> dt.datetime | None:
    if life not in LIVES:
        raise TokenRefused("life", f"{life[:20]!r} is no choice", ", ".join(LIVES.values()))
    return timezone.now() + dt.timedelta(days=int(life)) if life else None


@login_required
@require_POST
def end_token(request: HttpRequest, token_id: int) -> HttpResponse:
    token = get_object_or_404(tokens_of(_person(request)), pk=token_id)
    revoke_token(token)
    messages.success(request, f"The token “{token.name}” opens nothing any more.")
    return redirect("account")


@login_required
@require_POST
def end_session(request: HttpRequest, sign_in_id: int) -> HttpResponse:
    end_sign_in(_person(request), get_object_or_404(sign_ins_of(_person(request)), pk=sign_in_id))
    messages.success(request, "That browser is signed out.")
    return redirect("account")


@login_required
@require_POST
def end_other_sessions(request: HttpRequest) -> HttpResponse:
    count = end_other_sign_ins(_person(request), request)
    messages.success(request, f"{count} other browser{'s are' if count != 1 else ' is'} signed out.")
    return redirect("account")


@login_required
@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    try:
        with transaction.atomic():
            set_preferences(_person(request), request.POST.get("theme", ""), request.POST.get("time_zone", ""))
    except BadPreference as error:
        return _page(request, preference_faults={error.field: f"{error.message}; allowed: {error.allowed}"}, status=422)
    messages.success(request, "Saved.")
    return redirect("account")


class ChangePassword(LoginRequiredMixin, PasswordChangeView):
    """Changing it signs out every other browser: their sessions carry a hash of the old one."""

    template_name = "accounts/password.html"
    success_url = reverse_lazy("account")
    extra_context = {"section": "account"}

    @transaction.atomic
    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        answer = super().form_valid(form)
        record(_person(self.request), "user.password", _person(self.request))
        messages.success(self.request, "The password is changed, and every other browser is signed out.")
        return answer


def _page(request: HttpRequest, status: int = 200, **more: Any) -> HttpResponse:
    user = _person(request)
    tokens = tokens_of(user).order_by(F("revoked_at").desc(nulls_first=True), "-id")
    memberships = Membership.objects.filter(user=user).select_related("project").order_by("project__name")
    context = {
        "section": "account",
        "tokens": [{"token": token, "state": _state(token)} for token in tokens[:TOKENS_SHOWN]],
        "sign_ins": sign_ins_of(user),
        "session_key": request.session.session_key,
        "memberships": memberships,
        "themes": Theme.choices,
        "time_zones": time_zones(),
        "lives": LIVES,
        **more,
    }
    return render(request, "accounts/account.html", context, status=status)


def _state(token: ApiToken) -> str:
    if token.revoked_at:
        return "revoked"
    return "expired" if token.expires_at and token.expires_at <= timezone.now() else "valid"
