"""What tests share: real PostgreSQL and Valkey for the session, and the environment for processes of theirs.

`db` and friends of pytest-django use the PostgreSQL of `services`; a test of Valkey alone asks for
`redis_url`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings

from labsite.database_url import database_settings, database_url
from labsite.services import Services

REPOSITORY = Path(__file__).resolve().parent.parent
os.environ.setdefault("LAB_HOME", str(REPOSITORY / ".lab"))


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """PostgreSQL and Valkey that go with the session, or those of DATABASE_URL and REDIS_URL."""
    with tempfile.TemporaryDirectory(prefix="lab-test-") as directory:
        # The data go with the session, and a test kills processes but not the machine: nothing needs to reach the disk.
        unsynced = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        running = Services(Path(directory), outlive_us=False, postgres_options=unsynced)
        try:
            running.start()
            os.environ.update(running.urls)
            settings.REDIS_URL = settings.CELERY_BROKER_URL = settings.LAB_BROKER_PUBLIC_URL = running.urls["REDIS_URL"]
            yield running
        finally:
            running.stop()


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests call the API far oftener than people do; those of the limits set their own."""
    monkeypatch.setattr(settings, "RATE_LIMITS", {})


@pytest.fixture(autouse=True, scope="session")
def traces_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Files of traces that tests register go with the session."""
    settings.LAB_TRACES = tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(services: Services) -> None:
    # In place: Django's connection handler already holds this dictionary.
    settings.DATABASES["default"].update(database_settings(services.urls["DATABASE_URL"]))


@pytest.fixture
def redis_url(services: Services) -> Iterator[str]:
    """An empty Valkey, for one test."""
    url = services.urls["REDIS_URL"]
    with redis.Redis.from_url(url) as client:
        client.flushall()
        yield url
        client.flushall()


@pytest.fixture
def process_env(transactional_db: None, redis_url: str) -> dict[str, str]:
    """The environment of a lab process that a test starts: the test's own database and Valkey."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "labsite.settings",
        "DATABASE_URL": database_url(settings.DATABASES["default"]),
        "REDIS_URL": redis_url,
        "PYTHONPATH": str(REPOSITORY),
    }


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Benchmarks are run by hand, with -m bench: left out, not skipped, otherwise."""
    if "bench" in config.getoption("markexpr"):
        return
    benches = [item for item in items if item.get_closest_marker("bench")]
    config.hook.pytest_deselected(items=benches)
    items[:] = [item for item in items if item not in benches]


def _forbidden_skips(config: pytest.Config) -> int:
    """How many tests were skipped, where LAB_NO_SKIPS=1 (as in CI) allows none."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("LAB_NO_SKIPS") != "1" or reporter is None:
        return 0
    return len(reporter.stats.get("skipped", []))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _forbidden_skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if skipped := _forbidden_skips(config):
        terminalreporter.write_line(f"LAB_NO_SKIPS=1: {skipped} skipped test(s) fail this run", red=True)
