"""A team with a researcher, his browser, and an experiment that a modelled node has run to its end."""

from __future__ import annotations

import pytest
from control_plane import person, ready_node, submit, team
from django.test import Client
from modelled_node import MODELLED, finish_run, modelled_node

from experiments.models import Experiment
from labsite.accounts.models import Project, User


@pytest.fixture
def project() -> Project:
    return team()


@pytest.fixture
def served(db: None) -> None:
    """There is a node that could run what is submitted."""
    ready_node()


@pytest.fixture
def researcher(project: Project) -> User:
    return person(project)


@pytest.fixture
def owner(project: Project) -> User:
    """A researcher, as whoever submits the test's experiments."""
    return person(project)


@pytest.fixture
def browser(researcher: User) -> Client:
    client = Client()
    client.force_login(researcher)
    return client


@pytest.fixture
def finished(project: Project, researcher: User, redis_url: str) -> Experiment:
    """A whole experiment that a modelled node has run."""
    modelled_node()
    experiment = submit(project, researcher, **MODELLED)
    for run in experiment.runs.order_by("position"):
        assert finish_run(run, redis_url).state == "succeeded"
    experiment.refresh_from_db()
    return experiment
