"""The models' list and a model's page, and what an operator does to one that was registered."""

from __future__ import annotations

import pytest
from control_plane import person, ready_node, team
from django.test import Client
from modelled_node import text_of

from experiments.models import RegisteredModel
from hardware.models import Node
from labsite.accounts.models import AuditEntry, Role
from runners.models import REGISTRY, LocalSource, ModelEntry, ModelFile

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]

SHIPPED = REGISTRY["smollm2-135m-instruct"]


def register(name: str = "tiny-7b.test", **changes: object) -> RegisteredModel:
    entry = ModelEntry(
        name=name,
        title="A <b>tiny</b> model",
        licence="MIT",
        format="safetensors",
        architecture="qwen3",
        files=(
            ModelFile(name="config.json", bytes=10, sha256="a" * 64),
            ModelFile(name="model.safetensors", bytes=2_000_000, sha256="b" * 64),
        ),
        source=LocalSource(path="/models/tiny"),
        shape=dict(SHIPPED.shape),
    )
    return RegisteredModel.objects.create(name=name, entry=entry.to_dict(), **changes)


def client_of(role: Role) -> Client:
    client = Client()
    client.force_login(person(team(), role))
    return client


def test_nobody_sees_models_without_signing_in():
    for path in ("/models/", f"/models/{SHIPPED.name}/"):
        assert Client().get(path)["Location"].startswith("/accounts/login/")


def test_the_list_has_shipped_and_registered_models_and_who_holds_them(browser):
    register()
    held = [{"name": SHIPPED.name, "sha256": SHIPPED.sha256}]
    Node.objects.filter(pk=ready_node("holder").pk).update(models_held=held)
    page = text_of(browser.get("/models/"))
    assert SHIPPED.name in page and "tiny-7b.test" in page
    assert 'title="holder"' in page
    assert "2.00 MB" in page


def test_the_list_is_searched_filtered_and_sorted(browser):
    register()
    assert SHIPPED.name not in text_of(browser.get("/models/?search=qwen"))
    assert "tiny-7b" not in text_of(browser.get("/models/?format=gguf"))
    page = text_of(browser.get("/models/?sort=-bytes"))
    assert page.index(SHIPPED.name) < page.index("tiny-7b.test")
    assert "No model is like that" in text_of(browser.get("/models/?search=nothing"))


def test_a_model_says_what_it_is_made_of(browser):
    register()
    page = text_of(browser.get("/models/tiny-7b.test/"))
    for part in ("A &lt;b&gt;tiny&lt;/b&gt; model", "/models/tiny", "model.safetensors", "b" * 64, "MIT", "qwen3",
                 "max_model_len", "2 files", "no node of yours"):  # fmt: skip
        assert part in page, part


@pytest.mark.parametrize("name", ["nothing", "..", "UPPER", "a" * 101, "x%2f..%2fy"])
def test_a_model_that_there_is_not_is_not_found(browser, name):
    assert browser.get(f"/models/{name}/").status_code == 404


def test_an_operator_retires_a_registered_model_and_takes_it_back():
    register()
    operator = client_of(Role.OPERATOR)
    assert "Retire" in text_of(operator.get("/models/tiny-7b.test/"))
    page = text_of(operator.post("/models/tiny-7b.test/retire", follow=True))
    assert RegisteredModel.objects.get().retired_at is not None
    assert '<span class="tag retired">' in page
    assert "tiny-7b" not in text_of(operator.get("/models/"))
    assert "tiny-7b" in text_of(operator.get("/models/?retired=true"))
    operator.post("/models/tiny-7b.test/take-back")
    assert RegisteredModel.objects.get().retired_at is None
    assert AuditEntry.objects.filter(action="model.retire", via="page").count() == 1


def test_a_shipped_model_stays():
    page = text_of(client_of(Role.OPERATOR).post(f"/models/{SHIPPED.name}/retire", follow=True))
    assert "is shipped with the lab and can&#x27;t be retired" in page


def test_a_researcher_neither_sees_the_button_nor_may(browser):
    register()
    assert "model-retire" not in text_of(browser.get("/models/tiny-7b.test/"))
    for action in ("retire", "take-back"):
        assert browser.post(f"/models/tiny-7b.test/{action}").status_code == 403
    assert RegisteredModel.objects.get().retired_at is None


def test_the_list_costs_a_fixed_number_of_queries(browser, django_assert_max_num_queries):
    for i in range(40):
        register(f"model-{i:02}")
    with django_assert_max_num_queries(20):
        page = browser.get("/models/")
    assert page.context["following"]
