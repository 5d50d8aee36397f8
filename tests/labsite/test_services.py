"""Embedded PostgreSQL and Valkey: started, adopted, protected by passwords, replaced by real ones when named."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from labsite.home import kept_secret
from labsite.postgres import EmbeddedPostgres
from labsite.services import Services
from labsite.valkey import EmbeddedValkey


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path, outlives_us=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    server = EmbeddedValkey(tmp_path, outlives_us=False)
    server.start()
    yield server
    server.stop()


def query(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def test_postgres_16_answers_and_its_role_is_no_superuser(postgres: EmbeddedPostgres):
    assert str(query(postgres.url, "SHOW server_version")).startswith("16.")
    assert query(postgres.url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False


def test_postgres_does_not_run_as_root(postgres: EmbeddedPostgres):
    assert postgres.process is not None
    assert 0 not in postgres.process.uids()


def test_postgres_listens_on_no_port(postgres: EmbeddedPostgres):
    assert query(postgres.url, "SHOW listen_addresses") == ""


def test_postgres_refuses_a_wrong_password(postgres: EmbeddedPostgres, tmp_path: Path):
    wrong = postgres.url.replace(kept_secret(tmp_path, "postgres_password"), "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        query(wrong, "SELECT 1")


def test_a_leftover_postgres_is_adopted_with_its_data(postgres: EmbeddedPostgres, tmp_path: Path):
    query(postgres.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    second = EmbeddedPostgres(tmp_path)
    second.start()
    assert second.adopted
    assert second.process == postgres.process
    assert query(second.url, "SELECT answer FROM kept") == 42


def test_postgres_starts_again_after_kill_9_with_its_data(postgres: EmbeddedPostgres, tmp_path: Path):
    query(postgres.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert postgres.process is not None
    backends = postgres.process.children()
    os.kill(postgres.process.pid, signal.SIGKILL)
    psutil.wait_procs(backends, timeout=10)
    second = EmbeddedPostgres(tmp_path, outlives_us=False)
    second.start()
    try:
        assert not second.adopted
        assert query(second.url, "SELECT answer FROM kept") == 42
    finally:
        second.stop()


def test_a_half_made_data_directory_is_never_met(tmp_path: Path):
    (tmp_path / "postgres" / "new-cut-short" / "data").mkdir(parents=True)
    server = EmbeddedPostgres(tmp_path, outlives_us=False)
    server.start()
    try:
        assert query(server.url, "SELECT 1") == 1
    finally:
        server.stop()


def test_a_home_with_a_long_path_gets_its_socket_elsewhere(tmp_path: Path):
    home = tmp_path / ("long" * 30)
    home.mkdir()
    server = EmbeddedPostgres(home, outlives_us=False)
    server.start()
    try:
        assert query(server.url, "SELECT 1") == 1
    finally:
        server.stop()


def test_stopping_postgres_leaves_no_process(postgres: EmbeddedPostgres):
    assert postgres.process is not None
    family = [postgres.process, *postgres.process.children()]
    postgres.stop()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_valkey_asks_for_a_password(valkey: EmbeddedValkey):
    with pytest.raises(redis.AuthenticationError), redis.Redis(port=valkey.port) as client:
        client.ping()


def test_valkey_keeps_everything_and_evicts_nothing(valkey: EmbeddedValkey):
    with redis.Redis.from_url(valkey.url, decode_responses=True) as client:
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_valkey_brings_keys_users_and_port_back_after_kill_9(valkey: EmbeddedValkey, tmp_path: Path):
    with redis.Redis.from_url(valkey.url) as client:
        client.set("kept", "42")
        client.execute_command("ACL", "SETUSER", "node-a", "on", "nopass", "~node:a:*", "+get")
        client.execute_command("ACL", "SAVE")
        client.execute_command("WAITAOF", 1, 0, 5000)
    assert valkey.process is not None
    os.kill(valkey.process.pid, signal.SIGKILL)
    second = EmbeddedValkey(tmp_path, outlives_us=False)
    second.start()
    try:
        assert not second.adopted
        assert second.port == valkey.port
        with redis.Redis.from_url(second.url, decode_responses=True) as client:
            assert client.get("kept") == "42"
            assert "node-a" in client.execute_command("ACL", "USERS")
    finally:
        second.stop()


def test_a_leftover_valkey_is_adopted(valkey: EmbeddedValkey, tmp_path: Path):
    second = EmbeddedValkey(tmp_path)
    second.start()
    assert second.adopted
    assert second.process == valkey.process


def test_secrets_are_readable_by_their_owner_alone(tmp_path: Path):
    secret = kept_secret(tmp_path, "some")
    assert kept_secret(tmp_path, "some") == secret
    assert stat.S_IMODE((tmp_path / "secrets" / "some").stat().st_mode) == 0o600


def test_no_embedded_server_where_real_ones_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@db.example/lab")
    monkeypatch.setenv("REDIS_URL", "redis://:secret@broker.example/0")
    services = Services(tmp_path)
    services.start()
    assert services.embedded == []
    assert services.urls["DATABASE_URL"] == "postgresql://me:secret@db.example/lab"
    assert not (tmp_path / "postgres").exists() and not (tmp_path / "valkey").exists()


def test_valkey_moves_to_another_address_and_stays_on_loopback(valkey: EmbeddedValkey, tmp_path: Path):
    second = EmbeddedValkey(tmp_path, bind="127.0.0.2", outlives_us=False)
    second.start()
    try:
        assert not second.adopted
        with redis.Redis.from_url(second.url) as loopback, redis.Redis("127.0.0.2", second.port) as other:
            assert loopback.ping()
            with pytest.raises(redis.AuthenticationError):
                other.ping()
    finally:
        second.stop()


@pytest.mark.parametrize(("mode", "capabilities"), [(0o755, 0), (0o700, 1 << 1)])
def test_postgres_keeps_one_capability_and_only_below_a_closed_directory(mode: int, capabilities: int):
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, mode)
        server = EmbeddedPostgres(Path(directory), outlives_us=False)
        server.start()
        try:
            assert server.process is not None
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            as_root = os.geteuid() == 0  # else it runs as we do, and has nothing to give up
            assert f"CapEff:\t{capabilities if as_root else 0:016x}" in status
            assert f"NoNewPrivs:\t{int(as_root)}" in status
        finally:
            server.stop()
