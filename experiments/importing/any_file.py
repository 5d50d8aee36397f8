"""Imports an uploaded file, whatever it is: a bundle of another lab, or a file of another tool."""

from __future__ import annotations

from experiments.importing.bundled import import_bundle
from experiments.importing.foreign import import_foreign
from experiments.importing.upload import Upload
from experiments.models import Experiment
from labsite.accounts.models import Project, Role, User
from labsite.accounts.permissions import require
from runners.interchange.bundle import is_bundle


def import_upload(user: User, project: Project, upload: Upload, name: str = "") -> Experiment:
    """The new experiment. Raises AccessDenied, BadFile, BadParameter."""
    require(user, project, Role.RESEARCHER, "importing results")
    if is_bundle(upload.path):
        return import_bundle(user, project, upload, name)
    return import_foreign(user, project, upload, name)
