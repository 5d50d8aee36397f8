"""Who may do what: the one place for rules that the API, the pages, the sockets and the admin all ask.

Every answer is read from the database at the moment it is asked, so a changed role holds at once. What belongs to
a project that a user is not in does not exist for him: ask with `require` and answer NotAMember as "not found".
"""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from labsite.accounts.models import Membership, Project, Role, User

Person = User | AnonymousUser


class AccessDenied(Exception):
    """The user may not do this. A retry makes no sense until somebody changes his role."""


class NotAMember(AccessDenied):
    """He is not in the project: to be answered as if the thing did not exist."""

    def __init__(self) -> None:
        super().__init__("not found")


class RoleTooLow(AccessDenied):
    def __init__(self, project: Project, has: Role, needs: Role, what: str) -> None:
        super().__init__(f"{what} needs the role {needs.label} in project {project.slug}; yours is {has.label}")
        self.needs = needs


def role_in(user: Person, project: Project) -> Role | None:
    """The user's role in the project; None where he has none. A superuser is an admin everywhere."""
    if not user.is_active or not isinstance(user, User):
        return None
    if user.is_superuser:
        return Role.ADMIN
    role = Membership.objects.filter(user=user, project=project).values_list("role", flat=True).first()
    return None if role is None else Role(role)


def require(user: Person, project: Project, needs: Role, what: str = "this") -> Role:
    """The user's role, if it is at least `needs`. Raises NotAMember or RoleTooLow."""
    has = role_in(user, project)
    if has is None:
        raise NotAMember
    if has < needs:
        raise RoleTooLow(project, has, needs, what)
    return has


def require_control(user: Person, project: Project, owner_id: int, verb: str) -> Role:
    """A researcher controls his own experiments (cancels, pauses, edits, deletes them), an operator anyone's.

    `verb` says in the message what was tried. Raises NotAMember or RoleTooLow.
    """
    own = user.pk == owner_id
    needs = Role.RESEARCHER if own else Role.OPERATOR
    return require(user, project, needs, f"{verb} your own work" if own else f"{verb} another's work")


def may_control(user: Person, project: Project, owner_id: int) -> bool:
    try:
        require_control(user, project, owner_id, "changing")
    except AccessDenied:
        return False
    return True


def projects_of(user: Person, at_least: Role = Role.VIEWER) -> QuerySet[Project]:
    """The projects in which the user has at least that role."""
    if not user.is_active or not isinstance(user, User):
        return Project.objects.none()
    if user.is_superuser:
        return Project.objects.all()
    held = Membership.objects.filter(user=user, role__gte=at_least).values("project_id")
    return Project.objects.filter(pk__in=held)


def roles_of(user: User) -> list[tuple[Project, Role]]:
    """The user's projects, by name, with his role in each."""
    if user.is_superuser:
        return [(project, Role.ADMIN) for project in Project.objects.order_by("name")]
    held = Membership.objects.filter(user=user).select_related("project").order_by("project__name")
    return [(membership.project, Role(membership.role)) for membership in held]


def has_role_anywhere(user: Person, at_least: Role) -> bool:
    return projects_of(user, at_least).exists()
