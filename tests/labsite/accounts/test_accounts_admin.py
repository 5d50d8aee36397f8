"""The admin of people, as superuser, as a project's admin, as operator, and for those it is closed to."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from labsite.accounts.models import ApiToken, AuditEntry, Membership, Project, Role, User
from labsite.accounts.tokens import authenticate_token, create_token

pytestmark = pytest.mark.django_db
LIST = reverse("admin:accounts_apitoken_changelist")
PASSWORD = "correct horse battery"


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="One", slug="one")


def member(project: Project, role: Role) -> User:
    user = User.objects.create_user(f"person{User.objects.count()}", password=PASSWORD)
    Membership.objects.create(user=user, project=project, role=role)
    return user


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root() -> Client:
    return client_of(User.objects.create_superuser("root"))


def make_token(client: Client, user: User) -> str | None:
    """The token as the admin shows it; None where the form is refused."""
    body = {"user": user.pk, "name": "laptop", "expires_at_0": "", "expires_at_1": ""}
    page = client.post(reverse("admin:accounts_apitoken_add"), body, follow=True).content.decode()
    shown = re.search(r"<code>(lab_[^<]+)</code>", page)
    return shown[1] if shown else None


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER])
def test_the_admin_is_closed_to_those_who_operate_nothing(project: Project, role: Role) -> None:
    client = client_of(member(project, role))
    for page in ("index", "hardware_node_changelist", "accounts_project_changelist", "accounts_apitoken_changelist"):
        assert client.get(reverse(f"admin:{page}")).status_code == 302


def test_an_operator_signs_in_to_the_admin_without_being_staff(project: Project) -> None:
    user = member(project, Role.OPERATOR)
    assert not user.is_staff
    client, login = Client(), reverse("login")
    answer = client.post(f"{login}?next=/admin/", {"username": user.username, "password": PASSWORD}, follow=True)
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "Nodes" in page and "Tokens" in page.title()
    assert reverse("admin:accounts_user_changelist") not in page


def test_an_operator_whose_role_is_taken_is_out_at_once(project: Project) -> None:
    client = client_of(member(project, Role.OPERATOR))
    assert client.get("/admin/").status_code == 200
    Membership.objects.update(role=Role.RESEARCHER)
    assert client.get("/admin/").status_code == 302


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
def test_users_are_for_superusers_alone(project: Project, root: Client, role: Role) -> None:
    user = member(project, role)
    url = reverse("admin:accounts_user_change", args=[user.pk])
    assert client_of(user).get(url).status_code == 403
    assert root.get(url).status_code == 200


def test_a_superuser_makes_a_project(root: Client) -> None:
    body = {"name": "New", "slug": "new", "memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
    assert root.post(reverse("admin:accounts_project_add"), body).status_code == 302
    assert Project.objects.get().slug == "new"


def membership_form(project: Project, user: User, role: Role) -> dict[str, object]:
    return {
        "name": project.name,
        "memberships-TOTAL_FORMS": 1,
        "memberships-INITIAL_FORMS": 0,
        "memberships-0-project": project.pk,
        "memberships-0-username": user.get_username(),
        "memberships-0-role": int(role),
    }


def test_a_projects_admin_adds_members_to_it(project: Project) -> None:
    client = client_of(member(project, Role.ADMIN))
    newcomer = User.objects.create_user("newcomer")
    url = reverse("admin:accounts_project_change", args=[project.pk])
    form = membership_form(project, newcomer, Role.RESEARCHER) | {"memberships-INITIAL_FORMS": 0}
    assert client.post(url, form).status_code == 302
    assert Membership.objects.get(user=newcomer).role == Role.RESEARCHER


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
def test_nobody_changes_a_project_that_he_is_not_admin_of(project: Project, role: Role) -> None:
    mine = Project.objects.create(name="Mine", slug="mine")
    user = member(mine, Role.ADMIN if role == Role.ADMIN else Role.OPERATOR)
    theirs = project if role == Role.ADMIN else mine
    url = reverse("admin:accounts_project_change", args=[theirs.pk])
    answer = client_of(user).post(url, membership_form(theirs, user, Role.ADMIN))
    assert answer.status_code in (302, 403)
    assert not Membership.objects.filter(user=user, project=theirs, role=Role.ADMIN).exists()


def test_a_token_is_shown_once_and_works(project: Project) -> None:
    user = member(project, Role.OPERATOR)
    client = client_of(user)
    plain = make_token(client, user)
    assert plain is not None and authenticate_token(plain) == user
    assert plain not in client.get(LIST).content.decode()


def test_nobody_but_a_superuser_makes_a_token_for_somebody_else(project: Project, root: Client) -> None:
    user, other = member(project, Role.ADMIN), member(project, Role.VIEWER)
    assert make_token(client_of(user), other) is None
    assert not ApiToken.objects.exists()
    plain = make_token(root, other)
    assert plain is not None and authenticate_token(plain) == other


def test_everyone_sees_and_revokes_his_own_tokens_alone(project: Project) -> None:
    user, other = member(project, Role.OPERATOR), member(project, Role.OPERATOR)
    mine, theirs = create_token(user, "mine"), create_token(other, "theirs")
    client = client_of(user)
    page = client.get(LIST).content.decode()
    assert mine.record.prefix in page and theirs.record.prefix not in page
    chosen = {"action": "revoke", "_selected_action": [mine.record.pk, theirs.record.pk]}
    client.post(LIST, chosen)
    assert authenticate_token(mine.plain) is None
    assert authenticate_token(theirs.plain) == other


@pytest.mark.parametrize(("name", "said"), [("nobody", "no active user is named"), ("person1", "already")])
def test_a_member_who_cannot_be_added_is_refused_with_the_reason(project: Project, name: str, said: str) -> None:
    client = client_of(member(project, Role.ADMIN))
    member(project, Role.VIEWER)
    url = reverse("admin:accounts_project_change", args=[project.pk])
    form = membership_form(project, User(username=name), Role.ADMIN)
    page = client.post(url, form).content.decode()
    assert said in page
    assert Membership.objects.count() == 2


def test_somebody_named_twice_is_refused(project: Project) -> None:
    client, newcomer = client_of(member(project, Role.ADMIN)), User.objects.create_user("newcomer")
    form = membership_form(project, newcomer, Role.VIEWER) | {
        "memberships-TOTAL_FORMS": 2,
        "memberships-1-username": "newcomer",
        "memberships-1-role": int(Role.ADMIN),
    }
    page = client.post(reverse("admin:accounts_project_change", args=[project.pk]), form).content.decode()
    assert "newcomer is named twice" in page
    assert not newcomer.memberships.exists()


def test_the_list_of_members_has_ones_own_projects_alone(project: Project) -> None:
    theirs = member(Project.objects.create(name="Theirs", slug="theirs"), Role.VIEWER)
    admin = member(project, Role.ADMIN)
    client, url = client_of(admin), reverse("admin:accounts_membership_changelist")
    page = client.get(url).content.decode()
    assert admin.username in page and theirs.username not in page
    change = reverse("admin:accounts_membership_change", args=[theirs.memberships.get().pk])
    assert client.get(change).status_code == 302
    added = {"project": project.pk, "username": theirs.username, "role": int(Role.VIEWER)}
    assert client.post(reverse("admin:accounts_membership_add"), added).status_code == 302
    assert Membership.objects.filter(project=project, user=theirs).exists()
    elsewhere = added | {"project": theirs.memberships.first().project_id, "username": admin.username}
    assert client.post(reverse("admin:accounts_membership_add"), elsewhere).status_code == 200
    assert admin.memberships.count() == 1


def test_deactivating_users_leaves_oneself_and_is_on_record(project: Project) -> None:
    root, user = User.objects.create_superuser("root"), member(project, Role.VIEWER)
    chosen = {"action": "deactivate", "_selected_action": [root.pk, user.pk]}
    client = client_of(root)
    client.post(reverse("admin:accounts_user_changelist"), chosen)
    assert list(User.objects.filter(is_active=False)) == [user]
    assert AuditEntry.objects.get(action="user.deactivate").object_id == str(user.pk)
    client.post(reverse("admin:accounts_user_changelist"), chosen | {"action": "activate"})
    assert not User.objects.filter(is_active=False).exists()


def test_tokens_are_filtered_by_what_they_open(root: Client) -> None:
    user = User.objects.get(username="root")
    live, dead = create_token(user, "live one"), create_token(user, "dead one")
    ApiToken.objects.filter(pk=dead.record.pk).update(revoked_at="2026-01-01T00:00Z")
    assert "dead one" not in root.get(f"{LIST}?live=yes").content.decode()
    assert "live one" not in root.get(f"{LIST}?live=no").content.decode()
    assert live.record.prefix in root.get(f"{LIST}?q=live").content.decode()
