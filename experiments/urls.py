"""Addresses of the pages. The REST API is in experiments.api, the sockets in experiments.routing."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from experiments.pages import (
    chips,
    compare,
    control,
    examples,
    experiment,
    experiment_list,
    home,
    imports,
    models,
    new,
    nodes,
    run,
    traces,
)
from labsite.accounts.signing_in import SignInView, SignOutView


class ModelName(StringConverter):
    """The name of a model: as a slug, but with dots."""

    regex = "[a-z0-9][a-z0-9._-]{0,99}"


register_converter(ModelName, "model")

urlpatterns = [
    path("", home.home, name="home"),
    path("now", home.home_now, name="home-now"),
    path("accounts/login/", SignInView.as_view(), name="login"),
    path("accounts/logout/", SignOutView.as_view(), name="logout"),
    path("experiments/", experiment_list.experiment_list, name="experiments"),
    path("experiments/import", imports.import_results, name="experiment-import"),
    path("experiments/new/", new.new_experiment, name="experiment-new"),
    path("experiments/new/check", new.check_experiment, name="experiment-check"),
    path("experiments/<int:experiment_id>/", experiment.show_experiment, name="experiment"),
    path("experiments/<int:experiment_id>/results", experiment.experiment_results, name="experiment-results"),
    path("experiments/<int:experiment_id>/pause", control.pause, name="experiment-pause"),
    path("experiments/<int:experiment_id>/resume", control.resume, name="experiment-resume"),
    path("experiments/<int:experiment_id>/cancel", control.cancel, name="experiment-cancel"),
    path("experiments/<int:experiment_id>/delete", control.delete, name="experiment-delete"),
    path("experiments/<int:experiment_id>/restore", control.restore, name="experiment-restore"),
    path("experiments/<int:experiment_id>/again", control.run_again, name="experiment-again"),
    path("experiments/<int:experiment_id>/edit", control.edit, name="experiment-edit"),
    path("examples/", examples.example_list, name="examples"),
    path("examples/<slug:example>/run", examples.run_example, name="example-run"),
    path("runs/<int:run_id>/", run.show_run, name="run"),
    path("runs/<int:run_id>/state", run.run_state, name="run-state"),
    path("runs/<int:run_id>/steps", run.run_steps, name="run-steps"),
    path("runs/<int:run_id>/results", run.run_results, name="run-results"),
    path("runs/<int:run_id>/prediction", run.run_prediction, name="run-prediction"),
    path("runs/<int:run_id>/cancel", run.cancel, name="run-cancel"),
    path("traces/", traces.trace_list, name="traces"),
    path("traces/add", traces.add, name="trace-add"),
    path("traces/<int:trace_id>/", traces.show_trace, name="trace"),
    path("traces/<int:trace_id>/remove", traces.remove, name="trace-remove"),
    path("nodes/", nodes.node_list, name="nodes"),
    path("nodes/<slug:slug>/", nodes.show_node, name="node"),
    path("nodes/<slug:slug>/<slug:action>", nodes.change_node, name="node-change"),
    path("chips/", chips.chip_list, name="chips"),
    path("chips/<model:chip_id>/", chips.show_chip, name="chip"),
    path("models/", models.model_list, name="models"),
    path("models/<model:name>/", models.show_model, name="model"),
    path("models/<model:name>/retire", models.retire, name="model-retire"),
    path("models/<model:name>/take-back", models.take_back, name="model-take-back"),
    path("compare/", compare.compare, name="compare"),
    path("compare/offer", compare.compare_offer, name="compare-offer"),
]
