"""The table of who may do what, for every address of the lab: routes × methods × actors.

An outcome is what the actor meets:

    ok      it is done
    no      he may not, by his role
    gone    for him it is not there
    in      he has to sign in, or to send a token

A route that is not here fails test_access. Actors: nobody (no credentials), node (the project's node's own token),
stranger (an admin, but of another project), viewer, other (a researcher, of another's experiment), owner (the
researcher whose experiment, token and session it is), operator, admin, root (a superuser).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ACTORS = ("nobody", "node", "stranger", "viewer", "other", "owner", "operator", "admin", "root")


def outcomes(text: str) -> dict[str, str]:
    """One outcome for each of ACTORS, in their order."""
    return dict(zip(ACTORS, text.split(), strict=True))


#                    nobody node stranger viewer other owner operator admin root
ANYONE = outcomes("  ok     ok   ok       ok     ok    ok    ok       ok    ok")
SIGNED_IN = outcomes("in    in   ok       ok     ok    ok    ok       ok    ok")
MEMBER = outcomes("  in     in   gone     ok     ok    ok    ok       ok    ok")
SUBMIT = outcomes("  in     in   gone     no     ok    ok    ok       ok    ok")
CONTROL = outcomes(" in     in   gone     no     no    ok    ok       ok    ok")
OPERATE = outcomes(" in     in   gone     no     no    no    ok       ok    ok")
OWN = outcomes("     in     in   gone     gone   gone  ok    gone     gone  gone")
NODE = outcomes("    in     ok   in       in     in    in    in       in    in")
NOTHING = outcomes(" gone   gone gone     gone   gone  gone  gone     gone  gone")
# of the whole lab: the role in any project counts
OPERATOR_ANYWHERE = outcomes("in in ok       no     no    no    ok       ok    ok")
ADMIN_ANYWHERE = outcomes("in   in   ok       no     no    no    no       ok    ok")
# the admin's site lets in who operates something; the others it tells so where they sign in
ADMIN_SITE = outcomes("in    in   ok       in     in    in    ok       ok    ok")
ADMIN_OPERATE = outcomes("in in   gone     in     in    in    ok       ok    ok")
ADMIN_PEOPLE = outcomes("in  in   ok       in     in    in    no       ok    ok")
ADMIN_MEMBERS = outcomes("in in   gone     in     in    in    no       ok    ok")
ADMIN_ROOT = outcomes("in    in   no       in     in    in    no       no    ok")
ADMIN_NEVER = outcomes("in   in   no       in     in    in    no       no    no")
ADMIN_MINE = outcomes("in    in   gone     in     in    in    gone     gone  ok")


@dataclass(frozen=True)
class Rule:
    """Who may. `body` is one that is taken, `query` too; what `changes` something must be on record when it is done."""

    who: dict[str, str]
    body: Any = None
    query: str = ""
    changes: bool = False
    sign_out: bool = field(default=False)


def change(who: dict[str, str], body: Any = None, query: str = "") -> Rule:
    return Rule(who, body, query, changes=True)


CHECK = {"name": "an experiment", "model": "smollm2-135m-instruct", "nodes": {},
         "workload": {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 2}, "num_requests": 4},
         "repeats": 1}  # fmt: skip
WEBHOOK = {"url": "https://example.org/hook", "events": ["experiment.done"], "project": "lab"}
EDITED = {"name": "Edited", "question": "", "tags": "", "priority": "0"}
PASSWORD = "correct horse battery"
MODEL = {
    "name": "another", "title": "Another", "format": "gguf",
    "files": [{"name": "a.gguf", "bytes": 10, "sha256": "b" * 64}], "source": {"kind": "local", "path": "/m/a.gguf"},
    "shape": {"layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 128,
              "vocab_size": 259, "tied_embeddings": True, "max_model_len": 2048, "parameters": 100_000},
}  # fmt: skip
# one line of the custom format
TRACE = {"input_tokens": 8, "output_tokens": 2}

IMPORT = {"hw": "h100", "conc": 8, "tp": 8, "tput_per_gpu": 100.0, "median_tpot": 0.02}

EXPERIMENT = "experiments/<int:experiment_id>"
RUN = "runs/<int:run_id>"

API: dict[str, dict[str, Rule]] = {
    "openapi.json": {"GET": Rule(ANYONE)},
    "docs": {"GET": Rule(ANYONE)},
    "": {"GET": Rule(NOTHING)},
    "experiments": {"GET": Rule(SIGNED_IN), "POST": change(SUBMIT, CHECK, "project=lab")},
    "experiments/validate": {"POST": Rule(MEMBER, CHECK, "project=lab")},
    EXPERIMENT: {"GET": Rule(MEMBER), "PATCH": change(CONTROL, {"question": "Why?"}), "DELETE": change(CONTROL)},
    f"{EXPERIMENT}/restore": {"POST": Rule(CONTROL)},
    f"{EXPERIMENT}/cancel": {"POST": change(CONTROL)},
    f"{EXPERIMENT}/pause": {"POST": change(CONTROL)},
    f"{EXPERIMENT}/resume": {"POST": Rule(CONTROL)},
    f"{EXPERIMENT}/clone": {"POST": change(SUBMIT, {})},
    f"{EXPERIMENT}/export/<kind>.<form>": {"GET": change(MEMBER)},
    # nor has its run ended, so that there is no bundle of it
    f"{EXPERIMENT}/bundle.zip": {"GET": Rule(outcomes("in in gone refused refused refused refused refused refused"))},
    "imports": {"POST": change(SUBMIT, IMPORT, "project=lab")},
    # whoever may read it is told that its run has no results yet
    f"{EXPERIMENT}/check": {"GET": Rule(outcomes("in in gone refused refused refused refused refused refused"))},
    # nor is it a ladder
    f"{EXPERIMENT}/ladder": {"GET": Rule(outcomes("in in gone refused refused refused refused refused refused"))},
    "runs": {"GET": Rule(SIGNED_IN)},
    RUN: {"GET": Rule(MEMBER)},
    f"{RUN}/cancel": {"POST": change(CONTROL)},
    f"{RUN}/requests": {"GET": Rule(MEMBER)},
    f"{RUN}/series": {"GET": Rule(MEMBER)},
    f"{RUN}/steps": {"GET": Rule(MEMBER)},
    f"{RUN}/log": {"GET": Rule(MEMBER)},
    # its run has not ended
    f"{RUN}/replay": {"POST": Rule(outcomes("in in gone no refused refused refused refused refused"))},
    f"{RUN}/vllm.json": {"GET": Rule(outcomes("in in gone refused refused refused refused refused refused"))},
    f"{RUN}/aiperf.jsonl": {"GET": Rule(outcomes("in in gone refused refused refused refused refused refused"))},
    f"{RUN}/export/<kind>.<form>": {"GET": change(MEMBER, query="attempt=1")},
    "compare": {"GET": Rule(MEMBER, query="experiment={experiment_id}")},
    "webhooks": {"GET": Rule(SIGNED_IN), "POST": change(OPERATE, WEBHOOK)},
    "webhooks/<int:webhook_id>": {
        "GET": Rule(OPERATE), "PATCH": change(OPERATE, {"active": False}), "DELETE": change(OPERATE),
    },
    "webhooks/<int:webhook_id>/test": {"POST": change(OPERATE)},
    "webhooks/<int:webhook_id>/deliveries": {"GET": Rule(OPERATE)},
    "nodes": {"GET": Rule(SIGNED_IN)},
    "nodes/<slug>": {"GET": Rule(MEMBER)},
    "chips": {"GET": Rule(SIGNED_IN)},
    "chips/<chip_id>": {"GET": Rule(SIGNED_IN)},
    "models": {"GET": Rule(SIGNED_IN), "POST": change(OPERATOR_ANYWHERE, MODEL)},
    "models/<name>": {"GET": Rule(SIGNED_IN), "DELETE": change(OPERATOR_ANYWHERE)},
    "traces": {"GET": Rule(SIGNED_IN), "POST": change(SUBMIT, TRACE, "project=lab&name=another")},
    "traces/<int:trace_id>": {"GET": Rule(MEMBER), "DELETE": change(CONTROL)},
    "traces/<int:trace_id>/preview": {"GET": Rule(MEMBER)},
    "traces/<int:trace_id>/file": {"GET": Rule(MEMBER)},
    "shapes": {"GET": Rule(SIGNED_IN)},
    "shapes/<shape>": {"GET": Rule(SIGNED_IN)},
    "me": {"GET": Rule(SIGNED_IN)},
    "tokens": {"GET": Rule(SIGNED_IN), "POST": change(SIGNED_IN, {"name": "new"})},
    "tokens/<token_id>": {"DELETE": change(OWN)},
    "audit": {"GET": Rule(ADMIN_ANYWHERE)},
    # who has no valid join token is refused by what he sent, whoever he is
    "node/join": {"POST": Rule(outcomes("no no no no no no no no no"),
                  {"token": "join_x", "facts": {}, "agent_version": "1"})},
    "node/heartbeat": {"POST": Rule(NODE, {})},
    # an agent gets past the door, and is told that this run was never given to it
    "node/traces/<sha256>": {"GET": Rule(NODE | {"node": "gone"})},
    "node/claim": {"POST": Rule(NODE | {"node": "refused"}, {"run_id": 2**62, "attempt": 1})},
}  # fmt: skip

PAGES: dict[str, dict[str, Rule]] = {
    "health": {"GET": Rule(ANYONE)},
    "favicon.ico": {"GET": Rule(ANYONE)},
    "": {"GET": Rule(SIGNED_IN)},
    "now": {"GET": Rule(SIGNED_IN)},
    "accounts/login/": {"GET": Rule(ANYONE)},
    "accounts/logout/": {"POST": Rule(ANYONE, sign_out=True)},
    "experiments/": {"GET": Rule(SIGNED_IN)},
    "experiments/new/": {
        "GET": Rule(SIGNED_IN),
        "POST": change(SUBMIT | {"stranger": "no"}, {"document": "{document}", "project": "lab"}),
    },
    # without a file nothing is imported; who is not in the project is refused before that
    "experiments/import": {"POST": Rule(outcomes("in in no no ok ok ok ok ok"), {"project": "lab"})},
    "experiments/new/check": {"POST": Rule(SIGNED_IN, {"document": "name: x"})},
    "examples/": {"GET": Rule(SIGNED_IN)},
    "examples/<slug:example>/run": {"POST": change(SUBMIT | {"stranger": "no"}, {"project": "lab"})},
    f"{EXPERIMENT}/": {"GET": Rule(MEMBER)},
    f"{EXPERIMENT}/results": {"GET": Rule(MEMBER)},
    f"{EXPERIMENT}/pause": {"POST": change(CONTROL)},
    f"{EXPERIMENT}/resume": {"POST": Rule(MEMBER)},
    f"{EXPERIMENT}/cancel": {"POST": change(CONTROL)},
    f"{EXPERIMENT}/delete": {"POST": change(CONTROL)},
    f"{EXPERIMENT}/restore": {"POST": Rule(MEMBER)},
    f"{EXPERIMENT}/again": {"POST": change(SUBMIT)},
    f"{EXPERIMENT}/edit": {"POST": change(CONTROL, EDITED)},
    f"{RUN}/": {"GET": Rule(MEMBER)},
    f"{RUN}/state": {"GET": Rule(MEMBER)},
    f"{RUN}/steps": {"GET": Rule(MEMBER)},
    f"{RUN}/results": {"GET": Rule(MEMBER)},
    f"{RUN}/prediction": {"GET": Rule(MEMBER)},
    f"{RUN}/cancel": {"POST": change(CONTROL)},
    "nodes/": {"GET": Rule(SIGNED_IN)},
    "nodes/<slug:slug>/": {"GET": Rule(MEMBER)},
    "nodes/<slug:slug>/<slug:action>": {"POST": change(OPERATE)},
    "chips/": {"GET": Rule(SIGNED_IN)},
    "chips/<model:chip_id>/": {"GET": Rule(SIGNED_IN)},
    "models/": {"GET": Rule(SIGNED_IN)},
    "models/<model:name>/": {"GET": Rule(SIGNED_IN)},
    "models/<model:name>/retire": {"POST": change(OPERATOR_ANYWHERE)},
    # nothing to take back, and yet only for who could
    "models/<model:name>/take-back": {"POST": Rule(OPERATOR_ANYWHERE)},
    "traces/": {"GET": Rule(SIGNED_IN)},
    # without a file nothing is registered; who is not in the project is refused before that
    "traces/add": {"POST": Rule(SIGNED_IN | {"stranger": "no"}, {"name": "another", "project": "lab"})},
    "traces/<int:trace_id>/": {"GET": Rule(MEMBER)},
    "traces/<int:trace_id>/remove": {"POST": change(CONTROL)},
    "compare/": {"GET": Rule(SIGNED_IN)},
    "compare/offer": {"GET": Rule(SIGNED_IN)},
    "account/": {"GET": Rule(SIGNED_IN)},
    "account/tokens": {"POST": change(SIGNED_IN, {"name": "new", "life": ""})},
    "account/tokens/<int:token_id>/revoke": {"POST": change(OWN)},
    "account/sessions/<int:sign_in_id>/end": {"POST": change(OWN)},
    "account/sessions/end-others": {"POST": Rule(SIGNED_IN)},
    "account/preferences": {"POST": change(SIGNED_IN, {"theme": "dark", "time_zone": "Europe/Berlin"})},
    "account/password": {"GET": Rule(SIGNED_IN)},
}  # fmt: skip


def _hidden(seen: dict[str, str], object_seen: dict[str, str]) -> dict[str, str]:
    filtered = "gone" in object_seen.values()
    return {name: "gone" if filtered and seen[name] == "no" else what for name, what in object_seen.items()}


def admin_of(model: str, seen: dict[str, str], object_seen: dict[str, str], *, add: dict[str, str],
             delete: dict[str, str]) -> dict[str, dict[str, Rule]]:  # fmt: skip
    """The admin's addresses of one model: its list, and one object of it."""
    return {
        f"{model}/": {"GET": Rule(seen)},
        f"{model}/add/": {"GET": Rule(add)},
        # to whom the object is not shown, its history is not there
        f"{model}/<path:object_id>/history/": {"GET": Rule(_hidden(seen, object_seen))},
        f"{model}/<path:object_id>/change/": {"GET": Rule(object_seen)},
        f"{model}/<path:object_id>/delete/": {"GET": Rule(delete)},
        # the old address of the change page leads to it
        f"{model}/<path:object_id>/": {"GET": Rule(ADMIN_SITE)},
    }


ADMIN: dict[str, dict[str, Rule]] = {
    "": {"GET": Rule(ADMIN_SITE)},
    "login/": {"GET": Rule(outcomes("in in ok no no no ok ok ok"))},
    "logout/": {"POST": Rule(outcomes("gone gone ok gone gone gone ok ok ok"), sign_out=True)},
    "password_change/": {"GET": Rule(ADMIN_SITE)},
    "password_change/done/": {"GET": Rule(ADMIN_SITE)},
    # by the field that asks, and these ask for nothing
    "autocomplete/": {"GET": Rule(outcomes("in in no in in in no no no"))},
    "jsi18n/": {"GET": Rule(ADMIN_SITE)},
    "r/<path:content_type_id>/<path:object_id>/": {"GET": Rule(outcomes("in in gone in in in gone gone gone"))},
    "^(?P<app_label>…)/$": {"GET": Rule(ADMIN_SITE)},
    "(?P<url>.*)$": {"GET": Rule(outcomes("in in gone in in in gone gone gone"))},
    "accounts/user/<id>/password/": {"GET": Rule(ADMIN_ROOT)},
    **admin_of("accounts/user", ADMIN_ROOT, ADMIN_ROOT, add=ADMIN_ROOT, delete=ADMIN_ROOT),
    **admin_of("accounts/project", ADMIN_PEOPLE, ADMIN_MEMBERS, add=ADMIN_ROOT, delete=ADMIN_NEVER),
    **admin_of("accounts/apitoken", ADMIN_SITE, ADMIN_MINE, add=ADMIN_SITE, delete=ADMIN_NEVER),
    **admin_of("accounts/auditentry", ADMIN_PEOPLE, ADMIN_MEMBERS, add=ADMIN_NEVER, delete=ADMIN_NEVER),
    **admin_of("accounts/membership", ADMIN_PEOPLE, ADMIN_MEMBERS, add=ADMIN_PEOPLE, delete=ADMIN_MEMBERS),
    **admin_of("experiments/registeredmodel", ADMIN_SITE, ADMIN_SITE, add=ADMIN_NEVER, delete=ADMIN_NEVER),
    **admin_of("experiments/webhook", ADMIN_SITE, ADMIN_OPERATE, add=ADMIN_NEVER, delete=ADMIN_NEVER),
    **admin_of("experiments/webhookdelivery", ADMIN_SITE, ADMIN_OPERATE, add=ADMIN_NEVER, delete=ADMIN_NEVER),
    **admin_of("hardware/chip", ADMIN_SITE, ADMIN_SITE, add=ADMIN_ROOT, delete=ADMIN_NEVER),
    **admin_of("hardware/node", ADMIN_SITE, ADMIN_OPERATE, add=ADMIN_SITE, delete=ADMIN_NEVER),
}

ROUTES = {
    **{f"api/v1/{path}": rules for path, rules in API.items()},
    **{f"admin/{path}": rules for path, rules in ADMIN.items()},
    **PAGES,
}

# What a socket closes with, or `open` where it tells what there is.
SOCKETS = {
    "^ws/runs/(?P<id>[0-9]{1,18})$": "4401 4401 4404 open open open open open open",
    "^ws/experiments/(?P<id>[0-9]{1,18})$": "4401 4401 4404 open open open open open open",
    "": "4404 4404 4404 4404 4404 4404 4404 4404 4404",
}
