"""Turns a PostgreSQL address into Django's database settings. It reads no other scheme."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

SCHEMES = ("postgresql", "postgres")


class BadDatabaseUrl(ValueError):
    """The address can't be used; the message leaves its password out."""


def database_settings(url: str) -> dict[str, Any]:
    """Settings for `postgresql://user:password@host:port/name?host=/socket/directory&sslmode=…`."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise BadDatabaseUrl(f"DATABASE_URL has the scheme {parts.scheme!r}, allowed: {', '.join(SCHEMES)}")
    name = unquote(parts.path.lstrip("/"))
    if not name:
        raise BadDatabaseUrl("DATABASE_URL names no database: expected postgresql://user:password@host:port/name")
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    host = query.pop("host", None) or unquote(parts.hostname or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": query.pop("port", None) or str(parts.port or ""),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"pool": {"min_size": 0, "max_size": 8, "timeout": 10}, **query},
    }


def database_url(settings: dict[str, Any]) -> str:
    """The address that `database_settings` reads as these settings."""
    return postgres_url(
        settings["USER"],
        settings["PASSWORD"],
        settings["HOST"],
        int(settings["PORT"] or 5432),
        settings["NAME"],
    )


def postgres_url(user: str, password: str, host: str, port: int, name: str) -> str:
    """An address for a host by name or, where `host` begins with a slash, by the directory of its socket."""
    return f"postgresql://{quote_part(user)}:{quote_part(password)}@/{quote_part(name)}?host={quote_part(host)}&port={port}"


def quote_part(text: str) -> str:
    return quote(text, safe="")
