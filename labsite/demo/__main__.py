"""`python -m labsite.demo --credentials FILE [--json FILE]`: runs the demonstration against a lab that is up.

With `--document FILE` it does the same with another experiment.

Exit status 0 means that every run is valid, 1 that one is not, 2 that the demonstration could not be run.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import uuid
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from experiments import examples
from labsite.demo.client import Api, ApiRefused, Json
from labsite.demo.show import invalid_runs, show_comparison
from labsite.demo.watch import all_runs, watch_experiment
from labsite.home import read_json
from runners.models import ModelError, fetch

DEMO = Path(examples.__path__[0]) / "demo.yaml"
PLAIN_WIDTH = 120
MODEL = "smollm2-135m-instruct"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m labsite.demo", description=__doc__)
    parser.add_argument("--credentials", type=Path, required=True, metavar="FILE")
    parser.add_argument("--document", type=Path, metavar="FILE", default=DEMO, help="the experiment to run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparison here")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    credentials = read_json(options.credentials)
    if credentials is None:
        console.print(f"there is no {options.credentials}: start a lab first")
        return 2
    api = Api(credentials["url"], credentials["token"])
    try:
        if options.document == DEMO:
            fetch_model(options.credentials.parent / "models", console)
        comparison = run_demo(api, console, options.document.read_bytes())
    except (ApiRefused, ModelError, urllib.error.URLError) as error:
        console.print(f"the demonstration could not be run: {error}", markup=False)
        return 2
    except KeyboardInterrupt:
        return 2
    if options.json:
        options.json.write_text(json.dumps(comparison, indent=2) + "\n")
    return 1 if _tell_invalid(comparison, console) else 0


def run_demo(api: Api, console: Console, document: bytes) -> Json:
    """Submits, follows, shows; returns the comparison as the API gives it."""
    experiment = submit(api, document)
    console.print(f"experiment {experiment['id']}: {len(all_runs(experiment))} runs, live at {page(api, experiment)}")
    experiment = watch_experiment(api, experiment["id"], console)
    for run in all_runs(experiment):
        if run["reason"]:
            console.print(f"run {run['id']} {run['state']}: {run['reason']}", markup=False)
    comparison = api.get(f"/compare?experiment={experiment['id']}")
    show_comparison(comparison, console)
    console.print(f"{page(api, experiment)}")
    return comparison


def fetch_model(models_dir: Path, console: Console) -> None:
    columns = (TextColumn("model"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(MODEL, total=None)
        fetch(MODEL, models_dir, lambda done, total: progress.update(task, completed=done, total=total))


def submit(api: Api, document: bytes) -> Json:
    return api.post("/experiments", document, "application/yaml", {"Idempotency-Key": str(uuid.uuid4())})


def page(api: Api, experiment: Json) -> str:
    url = str(experiment["url"])
    return url if url.startswith("http") else api.url + url


def _tell_invalid(comparison: Json, console: Console) -> bool:
    lines = invalid_runs(comparison)
    for line in lines:
        console.print(f"not valid: {line}", markup=False)
    return bool(lines) or not comparison["trials"]


if __name__ == "__main__":
    sys.exit(main())
