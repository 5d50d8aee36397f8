"""One of everything, and one actor of each kind: what the walk over the access table is done with."""

from __future__ import annotations

import io
import secrets
from dataclasses import dataclass
from typing import Any

import yaml
from access_rules import CHECK, MODEL
from control_plane import chip, ready_node, submit
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from experiments.models import Experiment, RegisteredModel
from experiments.services import create_webhook, place_runs
from experiments.services.traces import add_trace
from experiments.services.webhook_events import tell_test
from hardware.models import Node
from hardware.services.registration import digest_of
from labsite.accounts.audit import record
from labsite.accounts.models import Membership, Project, Role, User
from labsite.accounts.sign_ins import note_seen
from labsite.accounts.tokens import create_token
from runners.models import ModelEntry
from runners.protocol import HEADER, NODE_PROTOCOL


@dataclass(frozen=True)
class Actor:
    """Sends a token to the API and has a session for everything else, where he has either."""

    name: str
    user: User | None
    token: str | None
    session: dict[str, str]

    def client(self, path: str, *, csrf: bool = False) -> Client:
        """A browser or a program of his; with `csrf`, a browser that checks as a real one is checked."""
        if path.startswith("/api/") and not csrf:
            headers = {HEADER: str(NODE_PROTOCOL)}
            headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
            return Client(raise_request_exception=False, headers=headers)
        client = Client(raise_request_exception=False, enforce_csrf_checks=csrf)
        for name, value in self.session.items():
            client.cookies[name] = value
        return client


@dataclass(frozen=True)
class World:
    actors: dict[str, Actor]
    values: dict[str, Any]
    objects: dict[str, Any]

    def path_of(self, route: str, query: str = "") -> str:
        """The address of a route, with the world's own things in the place of its parameters."""
        path = route
        for name, value in {**self.values, **self._object_of(route)}.items():
            for form in (f"<{name}>", f"<int:{name}>", f"<slug:{name}>", f"<path:{name}>", f"<model:{name}>"):
                path = path.replace(form, str(value))
        path = path.replace("^(?P<app_label>…)/$", "hardware/")
        path = path.replace("(?P<url>.*)$", "no-such-thing/")
        assert not set("<>$^") & set(path), f"no value for a parameter of {route}"
        return f"/{path}" + (f"?{query.format(**self.values)}" if query else "")

    def _object_of(self, route: str) -> dict[str, Any]:
        kind = "/".join(route.split("/")[1:3])
        return {"object_id": self.objects[kind]} if kind in self.objects else {}


def build_world() -> World:
    project, elsewhere = (Project.objects.create(name=name, slug=name) for name in ("lab", "elsewhere"))
    modelled_chip = chip()
    node = ready_node("bench", project=project)
    Node.objects.filter(pk=node.pk).update(api_digest=digest_of("node_secret"))
    # that an example runs on
    chip("h100-sxm")
    ready_node("modelled", kind="modelled", chip_id="h100-sxm")
    people = {
        "stranger": _person("stranger", elsewhere, Role.ADMIN),
        "viewer": _person("viewer", project, Role.VIEWER),
        "other": _person("other", project, Role.RESEARCHER),
        "owner": _person("owner", project, Role.RESEARCHER),
        "operator": _person("operator", project, Role.OPERATOR),
        "admin": _person("admin", project, Role.ADMIN),
        "root": User.objects.create_superuser("root"),
    }
    actors = {name: _actor(name, user) for name, user in people.items()}
    actors["nobody"] = Actor("nobody", None, None, {})
    actors["node"] = Actor("node", None, "node_secret", {})
    experiment = submit(project, people["owner"])
    place_runs()
    run = experiment.runs.get()
    webhook = create_webhook(people["operator"], project, "https://example.org/hook", ["experiment.done"])
    entry = ModelEntry.from_dict({**MODEL, "name": "tiny"})
    model = RegisteredModel.objects.create(name="tiny", entry=entry.to_dict())
    trace, _ = add_trace(people["owner"], project, "recorded", io.BytesIO(b'{"input_tokens": 8, "output_tokens": 4}'))
    token = create_token(people["owner"], "laptop").record
    entry_of_project = record(None, "project.rename", project)
    values = {
        "experiment_id": experiment.pk, "run_id": run.pk, "webhook_id": webhook.pk, "token_id": token.pk,
        "sign_in_id": people["owner"].sign_ins.get().pk, "slug": node.slug, "action": "drain", "name": "tiny",
        "trace_id": trace.pk, "sha256": trace.sha256, "shape": "llama-3-8b", "example": "modelled",
        "chip_id": modelled_chip.chip_id, "kind": "requests", "form": "csv", "id": people["owner"].pk,
        "document": yaml.safe_dump(CHECK), "content_type_id": ContentType.objects.get_for_model(Experiment).pk,
    }  # fmt: skip
    objects = {
        "accounts/user": people["owner"].pk, "accounts/project": project.pk, "accounts/apitoken": token.pk,
        "accounts/auditentry": entry_of_project.pk, "hardware/chip": modelled_chip.pk, "hardware/node": node.pk,
        "accounts/membership": people["viewer"].memberships.get().pk, "experiments/registeredmodel": model.pk,
        "experiments/webhook": webhook.pk, "experiments/webhookdelivery": tell_test(webhook).pk,
        "r/<path:content_type_id>": experiment.pk,
    }  # fmt: skip
    return World(actors, values, objects)


def _person(name: str, project: Project, role: Role) -> User:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, project=project, role=role)
    return user


def _actor(name: str, user: User) -> Actor:
    client = Client()
    client.force_login(user)
    request = client.get("/health").wsgi_request
    note_seen(user, request)
    session = {key: morsel.value for key, morsel in client.cookies.items()}
    return Actor(name, user, create_token(user, secrets.token_hex(4)).plain, session)
