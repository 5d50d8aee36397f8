"""`manage.py prepare`: brings the database up to date and fills in what a first start needs. Can be repeated."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from hardware.models import Node
from hardware.services import issue_join_token, load_catalog, register_node
from labsite.administrator import ensure_administrator
from labsite.first_start import LocalNode, kept_credentials, local_nodes


class Command(BaseCommand):
    help = "Migrate, load the chip catalog, make the admin account, register the local nodes."

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        load_catalog()
        self._admin()
        for node in local_nodes(settings.LAB_HOME):
            self._local_node(node)

    def _admin(self) -> None:
        credentials, new = kept_credentials(settings.LAB_HOME, settings.LAB_URL)
        ensure_administrator(credentials)
        if new:
            self.stdout.write(f"admin account: {credentials.username} / {credentials.password}")
            self.stdout.write(f"API token: {credentials.token}")
            self.stdout.write(f"both are kept in {settings.LAB_HOME / 'credentials.json'}")

    def _local_node(self, local: LocalNode) -> None:
        """Registers it, and leaves a token where its agent has not joined yet."""
        if local.has_joined(settings.LAB_HOME):
            # One of an earlier version offered its own chip alone.
            Node.objects.filter(name=local.name, pools=[]).update(pools=list(local.pools))
            return
        node = Node.objects.filter(name=local.name).first() or register_node(
            local.name, kind=local.kind, chip_id=local.chip_id, pools=list(local.pools)
        )
        token_file = local.token_file(settings.LAB_HOME)
        token_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        token_file.touch(mode=0o600)
        token_file.write_text(issue_join_token(node))
