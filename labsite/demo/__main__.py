"""`python -m labsite.demo --credentials FILE [--json FILE]`: runs the demonstration against a lab that is up.

With `--document FILE` it does the same with another experiment.

Exit status 0 means that every run is valid, 1 that one is not, 2 that the demonstration could not be run.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from experiments import examples
from labsite.home import read_json
from runners.cli.client import Client, Json
from runners.cli.compare import comparison_view
from runners.cli.errors import CommandFailed
from runners.cli.follow import all_runs, follow
from runners.cli.session import clean
from runners.display import settings_label
from runners.models import ModelError, fetch

DEMO = Path(examples.__path__[0]) / "demo.yaml"
PLAIN_WIDTH = 120
MODEL = "smollm2-135m-instruct"
METRICS = ["output_throughput", "ttft", "tpot"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m labsite.demo", description=__doc__)
    parser.add_argument("--credentials", type=Path, required=True, metavar="FILE")
    parser.add_argument("--document", type=Path, metavar="FILE", default=DEMO, help="the experiment to run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparison here")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    credentials = read_json(options.credentials)
    if credentials is None:
        console.print(f"there is no {options.credentials}: start a lab first")
        return 2
    try:
        if options.document == DEMO:
            fetch_model(options.credentials.parent / "models", console)
        client = Client(credentials["url"], credentials["token"])
        comparison = run_demo(client, console, options.document.read_bytes())
    except (CommandFailed, ModelError) as error:
        console.print(f"the demonstration could not be run: {clean(error)}", markup=False)
        return 2
    except KeyboardInterrupt:
        return 2
    if options.json:
        options.json.write_text(json.dumps(comparison, indent=2) + "\n")
    return 1 if _tell_invalid(comparison, console) else 0


def run_demo(client: Client, console: Console, document: bytes) -> Json:
    """Submits, follows, shows; returns the comparison as the API gives it."""
    headers = {"Content-Type": "application/yaml", "Idempotency-Key": str(uuid.uuid4())}
    experiment: Json = client.post("/experiments", content=document, headers=headers, repeat=True)
    console.print(f"experiment {experiment['id']}: {len(all_runs(experiment))} runs, live at {experiment['url']}")
    follow(client, console, experiment["id"], bars=True)
    comparison: Json = client.get("/compare", experiment=experiment["id"])
    console.print(comparison_view(comparison, METRICS))
    console.print(experiment["url"])
    return comparison


def fetch_model(models_dir: Path, console: Console) -> None:
    columns = (TextColumn("model"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(MODEL, total=None)
        fetch(MODEL, models_dir, lambda done, total: progress.update(task, completed=done, total=total))


def invalid_runs(comparison: Json) -> list[str]:
    """One line for each run that is not valid."""
    return [
        f"run {run['id']} ({settings_label(trial['settings'])}): {', '.join(run['reasons']) or 'it has no result'}"
        for trial in comparison["trials"]
        for run in trial["runs"]
        if not run["valid"]
    ]


def _tell_invalid(comparison: Json, console: Console) -> bool:
    lines = invalid_runs(comparison)
    for line in lines:
        console.print(f"not valid: {line}", markup=False)
    return bool(lines) or not comparison["trials"]


if __name__ == "__main__":
    sys.exit(main())
