"""Who may do what: users, projects (teams), roles in a project, and API tokens.

A user has one role in each project he belongs to. Nodes have credentials of their own (hardware.models), not
tokens here.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class Theme(models.TextChoices):
    AUTO = "auto", "as the system"
    LIGHT = "light", "light"
    DARK = "dark", "dark"


class User(AbstractUser):
    """A person who signs in. A superuser is an admin in every project. `time_zone` is an IANA name."""

    theme = models.CharField(max_length=5, choices=Theme.choices, default=Theme.AUTO)
    time_zone = models.CharField(max_length=64, default="UTC")


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


class SignIn(models.Model):
    """A browser in which a person is signed in: what he sees of his sessions, and can end."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_ins")
    session_key = models.CharField(max_length=40, unique=True)
    address = models.GenericIPAddressField(null=True)
    user_agent = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["-seen_at"]

    def __str__(self) -> str:
        return f"{self.user} since {self.created_at:%Y-%m-%d %H:%M}"


class AuditEntry(models.Model):
    """Who did what, when and by which way. Written with the change itself, never edited, never deleted by people.

    `action` is a verb and its object (`experiment.cancel`); `username` and `object_name` outlive what they name.
    """

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    user = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    username = models.CharField(max_length=150, blank=True)
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL, related_name="+")
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=100, blank=True)
    object_name = models.CharField(max_length=200, blank=True)
    via = models.CharField(max_length=10)
    address = models.GenericIPAddressField(null=True)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["project", "-id"], name="audit_by_project"),
            models.Index(fields=["object_type", "object_id", "-id"], name="audit_by_object"),
        ]

    def __str__(self) -> str:
        return f"{self.username}: {self.action} {self.object_name or self.object_id}"
