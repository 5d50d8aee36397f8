"""Who may do what: users, projects (teams), roles in a project, and API tokens.

A user has one role in each project he belongs to. Nodes have credentials of their own (hardware.models), not
tokens here.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """A person who signs in. A superuser is an admin in every project."""


class Project(models.Model):
    """A team's space: experiments belong to one project, and are seen by its members alone."""

    name = models.CharField(max_length=100, unique=True)
    slug = models.SlugField(max_length=60, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(User, through="Membership", related_name="projects")

    def __str__(self) -> str:
        return self.name


class Role(models.IntegerChoices):
    """Each role may do all that the ones below it may.

    viewer: read. researcher: submit, cancel own experiments. operator: cancel anyone's, register, drain and retire
    nodes of the project. admin: members, tokens, everything.
    """

    VIEWER = 10, "viewer"
    RESEARCHER = 20, "researcher"
    OPERATOR = 30, "operator"
    ADMIN = 40, "admin"


class Membership(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    role = models.PositiveSmallIntegerField(choices=Role.choices, default=Role.VIEWER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project"], name="one_role_per_project")]

    def __str__(self) -> str:
        return f"{self.user} is {self.get_role_display()} in {self.project}"


class ApiToken(models.Model):
    """A person's key to the REST API. Only its SHA-256 is kept; the token itself is shown once.

    A token is 256 random bits, so a plain hash is enough: there is nothing to guess.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user}"
