"""Imports an uploaded file, whatever it is: a bundle of another lab, or a file of another tool."""

from __future__ import annotations

from experiments.errors import BadParameter
from experiments.importing.bundled import import_bundle
from experiments.importing.foreign import import_foreign
from experiments.importing.upload import Upload
from experiments.models import Experiment
from labsite.accounts.models import Project, Role, User
from labsite.accounts.permissions import require
from runners.interchange.bundle import is_bundle
from runners.plain_text import NAME_RULE, is_name


def import_upload(user: User, project: Project, upload: Upload, name: str = "") -> Experiment:
    """The new experiment. Raises AccessDenied, BadFile, BadParameter."""
    require(user, project, Role.RESEARCHER, "importing results")
    if name and not is_name(name):
        raise BadParameter("name", "is not a name that can be read", NAME_RULE)
    if is_bundle(upload.path):
        return import_bundle(user, project, upload, name)
    return import_foreign(user, project, upload, name)
