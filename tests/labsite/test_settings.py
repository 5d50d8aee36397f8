"""What the settings promise: safe headers, no missing migration, static files, tasks that exist."""

from __future__ import annotations

from django.conf import settings
from django.core.management import call_command
from django.test import Client

from labsite.celery import app


def test_every_change_of_a_model_has_its_migration(db: None):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_health_answers_once_the_database_does(db: None, client: Client):
    assert client.get("/health").json() == {"status": "ok"}


def test_a_page_carries_the_security_headers(db: None, client: Client):
    headers = client.get("/health").headers
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


def test_a_host_that_is_not_ours_is_refused(db: None, client: Client):
    assert client.get("/health", headers={"host": "elsewhere.example"}).status_code == 400


def test_cookies_are_out_of_reach_of_scripts_and_other_sites():
    assert settings.SESSION_COOKIE_HTTPONLY and settings.CSRF_COOKIE_HTTPONLY
    assert settings.SESSION_COOKIE_SAMESITE == settings.CSRF_COOKIE_SAMESITE == "Lax"
    assert settings.DEBUG is False


def test_static_files_are_served_without_a_collecting_step(client: Client):
    response = client.get("/static/css/lab.css")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/css")


def test_every_task_of_the_beat_exists_in_the_control_worker():
    app.loader.import_default_modules()
    assert {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()} <= set(app.tasks)


def test_the_project_passes_its_own_checks():
    call_command("check", fail_level="WARNING")
