"""`manage.py results [RUN…]`: compute the results of ended runs again from their stored records.

For runs whose results an earlier version computed: what it did not know of is then there. Records are read whole, so
it takes a while; nothing is measured again. Without a run's number, every ended run that has no verdict on what held it
up is taken.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.models import RUN_ENDED, Run
from experiments.results import store_results


class Command(BaseCommand):
    help = "Compute the results of ended runs again from their stored records."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "runs", nargs="*", type=int, metavar="RUN", help="Numbers of runs; none: all that lack some."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        ended = Run.objects.filter(state__in=RUN_ENDED, final_attempt__isnull=False)
        wanted = set(options["runs"])
        found = ended.filter(id__in=wanted) if wanted else ended.filter(summary__bottleneck__isnull=True)
        ids = list(found.order_by("id").values_list("id", flat=True))
        if missing := sorted(wanted - set(ids)):
            raise CommandError(f"no ended run {', '.join(map(str, missing))}")
        for run_id in ids:
            store_results(Run.objects.select_related("final_attempt").get(id=run_id))
        self.stdout.write(f"{len(ids)} runs computed")
