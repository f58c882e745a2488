import pytest

from holdfast.azure.account import SCOPE, signed_in, tenant_of
from holdfast.azure.cloud import Cloud
from holdfast.azure.wanted import Administrator
from holdfast.model.errors import NotSignedIn
from tests.azure.conftest import OBJECT, SECRET, TENANT, USER, Azure, jwt

CLIENT = "77777777-1111-2222-3333-444444444444"


def test_a_developer_is_known_by_object_id_and_name() -> None:
    assert signed_in(jwt(USER)) == Administrator("dev@example.org", OBJECT, TENANT, "User")


@pytest.mark.parametrize("name", ["upn", "preferred_username", "unique_name"])
def test_the_name_is_found_in_every_version_of_tokens(name: str) -> None:
    claims = {"oid": OBJECT, "tid": TENANT, name: "dev@example.org"}
    assert signed_in(jwt(claims)).login == "dev@example.org"


def test_an_application_is_known_by_its_client_id_as_sql_server_knows_it() -> None:
    claims = {"oid": OBJECT, "tid": TENANT, "appid": CLIENT, "idtyp": "app", "app_displayname": "deployer"}
    assert signed_in(jwt(claims)) == Administrator("deployer", CLIENT, TENANT, "Application")


def test_an_application_without_a_name_is_called_by_its_id() -> None:
    assert signed_in(jwt({"tid": TENANT, "appid": CLIENT})).login == CLIENT


def test_the_tenant_is_in_the_token() -> None:
    assert tenant_of(jwt(USER)) == TENANT


@pytest.mark.parametrize(
    "token",
    [
        "",
        f"opaque-{SECRET}",
        f"a.%%%.{SECRET}",
        f"a.bm90IGpzb24.{SECRET}",
        jwt({}),
        jwt({"oid": OBJECT, "upn": "dev@example.org"}),
        jwt({**USER, "oid": 5}),
    ],
)
def test_a_token_that_does_not_tell_is_an_error_without_the_token(token: str) -> None:
    with pytest.raises(NotSignedIn, match="name the administrator with --admin-login") as caught:
        signed_in(token)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_token_is_asked_for_the_management_interface(azure: Azure, cloud: Cloud) -> None:
    assert signed_in(cloud.token()).login == "dev@example.org"
    assert azure.credential.scopes == [SCOPE]


def test_who_is_not_signed_in_is_told_how(azure: Azure) -> None:
    from azure.identity import CredentialUnavailableError  # noqa: PLC0415

    class Nobody:
        def get_token(self, *scopes: str, **_: object) -> None:
            raise CredentialUnavailableError(message="Please run 'az login'.\nMany more lines.")

    with azure.cloud(Nobody()) as cloud, pytest.raises(NotSignedIn) as caught:
        cloud.token()
    assert "could not sign in: Please run 'az login'; sign in with 'az login', or" in str(caught.value)
    assert "Many more" not in str(caught.value)
