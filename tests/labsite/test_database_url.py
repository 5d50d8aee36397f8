"""PostgreSQL addresses."""

from __future__ import annotations

import pytest

from labsite.database_url import BadDatabaseUrl, database_settings, database_url


def test_host_port_name_and_encoded_password_are_read():
    settings = database_settings("postgresql://me:p%40ss%2F@db.example:5433/lab?sslmode=require")
    assert (settings["HOST"], settings["PORT"], settings["NAME"]) == ("db.example", "5433", "lab")
    assert (settings["USER"], settings["PASSWORD"]) == ("me", "p@ss/")
    assert settings["OPTIONS"]["sslmode"] == "require"


def test_a_socket_directory_survives_the_way_there_and_back():
    settings = database_settings("postgresql://lab:s%3Acret@/lab?host=%2Fhome%2Fa%20b%2Fsocket&port=5432")
    assert settings["HOST"] == "/home/a b/socket"
    assert database_settings(database_url(settings)) == settings


@pytest.mark.parametrize("url", ["mysql://me:hunter2@h/lab", "postgresql://me:hunter2@h/"])
def test_a_bad_address_is_refused_without_showing_its_password(url: str):
    with pytest.raises(BadDatabaseUrl) as refusal:
        database_settings(url)
    assert "hunter2" not in str(refusal.value)
