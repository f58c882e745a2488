import pytest

from holdfast.azure.wanted import (
    ALLOW_AZURE,
    Administrator,
    Rule,
    Wanted,
    allowed,
    check_group,
    default_server,
    region,
)
from holdfast.model.errors import ConfigurationError
from tests.azure.conftest import OBJECT, SUBSCRIPTION, TENANT


def test_the_default_server_is_the_same_each_time_and_another_for_each_group_and_subscription() -> None:
    name = default_server(SUBSCRIPTION, "cristp-reltaskexec")
    assert name == "cristp-reltaskexec-9423be01b5"
    assert default_server(SUBSCRIPTION.upper(), "Cristp-RelTaskExec") == name
    assert default_server(SUBSCRIPTION, "other").rpartition("-")[2] != name.rpartition("-")[2]
    assert default_server(OBJECT, "cristp-reltaskexec") != name


@pytest.mark.parametrize("group", ["jobs", "My_Group.(x)", "ü", "_" * 90, "a" * 90, "-x-"])
def test_the_default_server_has_a_name_that_azure_takes_whatever_the_group_is_called(group: str) -> None:
    check_group(group)
    Wanted(subscription=SUBSCRIPTION, server=default_server(SUBSCRIPTION, group), group=group)


def test_regions_are_taken_as_people_write_them() -> None:
    assert [region(text) for text in ("west us2", "West US 2", "westus2")] == ["westus2"] * 3


def test_the_url_has_neither_user_nor_password() -> None:
    wanted = Wanted(subscription=SUBSCRIPTION, server="jobs")
    assert wanted.url == "mssql://jobs.database.windows.net/holdfast"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("subscription", "mine", "subscription-id: 'mine' is not an id such as"),
        ("group", "a/b", "group: 'a/b' is not"),
        ("group", "ends.", r"group: 'ends\.' is not"),
        ("location", "west/us", "location: 'west/us' is not the name of a region"),
        ("server", "Jobs", "server: 'Jobs' is not"),
        ("server", "-jobs", "server: '-jobs' is not"),
        ("server", "a" * 64, "server: 'a+' is not"),
        ("database", "a;b", "database: 'a;b' is not"),
        ("database", "Master", "database: 'Master' is a database of the server's own"),
        ("identities", ("",), "identity: '' is not a name"),
        ("identities", ("a\nb",), "identity: 'a.nb' is not a name"),
    ],
)
def test_what_azure_would_refuse_is_refused_here_by_name(setting: str, value: object, message: str) -> None:
    given = {"subscription": SUBSCRIPTION, "server": "jobs", setting: value}
    with pytest.raises(ConfigurationError, match=message):
        Wanted(**given)  # type: ignore[arg-type]


def test_an_address_and_a_network_become_rules() -> None:
    assert allowed("203.0.113.7") == Rule("allow-203-0-113-7", "203.0.113.7", "203.0.113.7")
    assert allowed("203.0.113.0/24") == Rule("allow-203-0-113-0-24", "203.0.113.0", "203.0.113.255")
    assert ALLOW_AZURE.start == ALLOW_AZURE.end == "0.0.0.0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("here", "is neither an IPv4 address"),
        ("::1", "is neither an IPv4 address"),
        ("203.0.113.7/24", "is neither an IPv4 address"),
        ("0.0.0.0", "--allow-azure-services asks for it"),
        ("0.0.0.0/0", "--allow-azure-services asks for it"),
        ("64.0.0.0/2", "is a large part of the internet"),
    ],
)
def test_what_is_no_address_or_too_many_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"allow-ip: .*{message}"):
        allowed(text)


@pytest.mark.parametrize(
    ("login", "sid", "tenant", "kind", "setting"),
    [
        ("", OBJECT, TENANT, "User", "admin-login"),
        ("dev", "dev", TENANT, "User", "admin-object-id"),
        ("dev", OBJECT, "example.org", "User", "tenant-id"),
        ("dev", OBJECT, TENANT, "Person", "admin-type"),
    ],
)
def test_an_administrator_is_checked_part_by_part(
    login: str, sid: str, tenant: str, kind: str, setting: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Administrator(login, sid, tenant, kind)
    assert caught.value.setting == setting
