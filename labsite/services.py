"""PostgreSQL and Valkey: the real ones that DATABASE_URL and REDIS_URL name, or embedded ones in the home."""

from __future__ import annotations

import os
from pathlib import Path

from labsite.home import write_private
from labsite.postgres import EmbeddedPostgres
from labsite.valkey import EmbeddedValkey

Embedded = EmbeddedPostgres | EmbeddedValkey


class Services:
    """The servers the lab stands on. Only embedded ones are started and stopped, and those not at all
    where real ones are named. `postgres_options` are further settings of the embedded PostgreSQL."""

    def __init__(
        self,
        home: Path,
        *,
        bind: str = "127.0.0.1",
        outlive_us: bool = True,
        postgres_options: dict[str, str] | None = None,
    ) -> None:
        self._home = home
        self.embedded: list[Embedded] = []
        self.urls: dict[str, str] = {}
        for variable in ("DATABASE_URL", "REDIS_URL"):
            if named := os.environ.get(variable):
                self.urls[variable] = named
                continue
            server: Embedded = (
                EmbeddedPostgres(home, outlives_us=outlive_us, options=postgres_options)
                if variable == "DATABASE_URL"
                else EmbeddedValkey(home, bind=bind, outlives_us=outlive_us)
            )
            self.embedded.append(server)
            self.urls[variable] = server.url

    def start(self) -> None:
        """Starts what is embedded; notes the addresses in the home for other commands. Raises StartFailed."""
        for server in self.embedded:
            server.start()
        write_private(self._home / "services.json", self.urls)

    def stop(self) -> None:
        for server in reversed(self.embedded):
            server.stop()
        (self._home / "services.json").unlink(missing_ok=True)
