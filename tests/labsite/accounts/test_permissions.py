"""Roles: what each may do, in which project, from the moment it is given until the moment it is taken."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser

from labsite.accounts.models import Membership, Project, Role, User
from labsite.accounts.permissions import (
    NotAMember,
    RoleTooLow,
    has_role_anywhere,
    may_control,
    projects_of,
    require,
    require_control,
    role_in,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="One", slug="one")


def member(project: Project, role: Role) -> User:
    user = User.objects.create_user(f"{role.label}-{User.objects.count()}")
    Membership.objects.create(user=user, project=project, role=role)
    return user


@pytest.mark.parametrize("has", list(Role))
@pytest.mark.parametrize("needs", list(Role))
def test_a_role_may_do_all_that_the_ones_below_it_may(project: Project, has: Role, needs: Role) -> None:
    user = member(project, has)
    if has >= needs:
        assert require(user, project, needs) == has
    else:
        with pytest.raises(RoleTooLow, match=f"needs the role {needs.label} in project one; yours is {has.label}"):
            require(user, project, needs)


def test_a_project_does_not_exist_for_those_outside(project: Project) -> None:
    other = Project.objects.create(name="Two", slug="two")
    for stranger in (member(other, Role.ADMIN), AnonymousUser()):
        assert role_in(stranger, project) is None
        with pytest.raises(NotAMember):
            require(stranger, project, Role.VIEWER)
        assert project not in projects_of(stranger)


def test_a_superuser_is_an_admin_everywhere(project: Project) -> None:
    root = User.objects.create_superuser("root")
    assert role_in(root, project) == Role.ADMIN
    assert list(projects_of(root)) == [project]


@pytest.mark.parametrize("superuser", [True, False])
def test_an_inactive_user_may_nothing(project: Project, superuser: bool) -> None:
    user = member(project, Role.ADMIN)
    User.objects.update(is_active=False, is_superuser=superuser)
    user.refresh_from_db()
    assert role_in(user, project) is None
    assert not projects_of(user).exists()
    assert not has_role_anywhere(user, Role.VIEWER)


def test_a_changed_role_holds_at_once(project: Project) -> None:
    user = member(project, Role.VIEWER)
    assert role_in(user, project) == Role.VIEWER
    Membership.objects.update(role=Role.OPERATOR)
    assert role_in(user, project) == Role.OPERATOR
    Membership.objects.all().delete()
    assert role_in(user, project) is None


def test_projects_are_listed_by_the_role_held_in_them(project: Project) -> None:
    user = member(project, Role.RESEARCHER)
    assert list(projects_of(user, Role.RESEARCHER)) == [project]
    assert not projects_of(user, Role.OPERATOR).exists()
    assert has_role_anywhere(user, Role.RESEARCHER)
    assert not has_role_anywhere(user, Role.OPERATOR)


@pytest.mark.parametrize(
    ("role", "own", "anothers"),
    [
        (Role.VIEWER, False, False),
        (Role.RESEARCHER, True, False),
        (Role.OPERATOR, True, True),
        (Role.ADMIN, True, True),
    ],
)
def test_who_cancels_what(project: Project, role: Role, own: bool, anothers: bool) -> None:
    user, other = member(project, role), member(project, Role.RESEARCHER)
    assert may_control(user, project, user.pk) is own
    assert may_control(user, project, other.pk) is anothers
    if not anothers:
        with pytest.raises(RoleTooLow, match="cancelling another's work"):
            require_control(user, project, other.pk, "cancelling")


def test_one_who_left_the_project_cancels_not_even_his_own(project: Project) -> None:
    user = member(project, Role.RESEARCHER)
    Membership.objects.all().delete()
    with pytest.raises(NotAMember):
        require_control(user, project, user.pk, "cancelling")
