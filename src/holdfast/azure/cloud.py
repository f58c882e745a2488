"""Azure's management interface, as far as it is needed here. Nobody else knows the SDK.

Bodies go in and come out as Azure's own JSON. What does not exist is None. What Azure refuses is an
AzureRefused with its own words, and what to do about it where that is known.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Protocol, Self

from holdfast.azure.account import SCOPE
from holdfast.azure.template import Json
from holdfast.model.errors import AzureRefused, ConfigurationError, NotSignedIn

POLL_SECONDS: Final = 5.0
_HINTS = {
    "AuthorizationFailed": "whoever is signed in needs the role Contributor on the subscription or the group",
    "InvalidAuthenticationTokenTenant": "sign in to the tenant of the subscription: az login --tenant ID",
    "LocationNotAvailableForResourceType": "choose another region with --location",
    "ProvisioningDisabled": "choose another region with --location",
    "RegionDoesNotAllowProvisioning": "choose another region with --location",
    "ResourceGroupBeingDeleted": "the group is being deleted; run this again when it is gone",
    "ScopeLocked": "a lock in Azure forbids it; remove that first",
    "SubscriptionNotFound": "see with 'az account list' which subscriptions you have",
}
_WITH_ADMINISTRATOR = "administrators/activedirectory"
_SIGN_IN = "sign in with 'az login', or let a managed identity or AZURE_CLIENT_ID and its like do it"


class Token(Protocol):
    """An access token."""

    @property
    def token(self) -> str: ...


class Credential(Protocol):
    """Whoever is signed in; those of azure-identity are such."""

    def get_token(self, *scopes: str) -> Token: ...


def credential() -> Credential:
    """Environment, workload identity, managed identity, or what a developer has signed in with, as found."""
    found: Credential = _module("azure.identity").DefaultAzureCredential()
    return found


class Cloud:
    """One subscription. `options` go to the SDK's clients."""

    def __init__(
        self, credential: Credential, subscription: str, *, poll_seconds: float = POLL_SECONDS, **options: Any
    ) -> None:
        self._credential = credential
        self._errors = _module("azure.core.exceptions")
        arguments = {"polling_interval": poll_seconds, **options}
        sql = _module("azure.mgmt.sql").SqlManagementClient
        resources = _module("azure.mgmt.resource.resources").ResourceManagementClient
        self._sql = sql(credential, subscription, **arguments)
        self._resources = resources(credential, subscription, **arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sql.close()
        self._resources.close()

    def token(self) -> str:
        """An access token for the management interface. It is a secret."""
        with self._telling("sign in"):
            return self._credential.get_token(SCOPE).token

    def group(self, name: str) -> Json | None:
        with self._telling(f"look for resource group {name}"):
            return self._found(lambda: self._resources.resource_groups.get(name))

    def make_group(self, name: str, body: Json) -> None:
        with self._telling(f"make resource group {name}"):
            self._resources.resource_groups.create_or_update(name, body)

    def contents(self, group: str) -> list[Json]:
        """All resources of a group, by name."""
        with self._telling(f"list what is in resource group {group}"):
            found: Iterable[Any] = self._resources.resources.list_by_resource_group(group)
            return sorted((each.as_dict() for each in found), key=lambda each: str(each.get("id", "")))

    def delete_group(self, name: str) -> None:
        """Deletes the group with all that is in it, and waits until it is gone."""
        with self._telling(f"delete resource group {name}"):
            self._resources.resource_groups.begin_delete(name).result()

    def server(self, group: str, name: str) -> Json | None:
        """A server with its administrator, whom Azure leaves out unless it is asked for him."""
        with self._telling(f"look for server {name}"):
            return self._found(lambda: self._sql.servers.get(group, name, expand=_WITH_ADMINISTRATOR))

    def why_taken(self, name: str) -> str | None:
        """Why no server can have this name; None if one can."""
        with self._telling(f"ask whether the name {name} is free"):
            body = {"name": name, "type": "Microsoft.Sql/servers"}
            answer: Json = self._sql.servers.check_name_availability(body).as_dict()
        if answer.get("available"):
            return None
        return str(answer.get("message") or answer.get("reason") or "no reason was given")

    def make_server(self, group: str, name: str, body: Json) -> None:
        with self._telling(f"make server {name}"):
            self._sql.servers.begin_create_or_update(group, name, body).result()

    def database(self, group: str, server: str, name: str) -> Json | None:
        with self._telling(f"look for database {name}"):
            return self._found(lambda: self._sql.databases.get(group, server, name))

    def make_database(self, group: str, server: str, name: str, body: Json) -> None:
        with self._telling(f"make database {name}"):
            self._sql.databases.begin_create_or_update(group, server, name, body).result()

    def rules(self, group: str, server: str) -> dict[str, Json]:
        """The rules of a server's firewall, by name."""
        with self._telling(f"list the firewall rules of server {server}"):
            found: Iterable[Any] = self._sql.firewall_rules.list_by_server(group, server)
            return {str(each.name): each.as_dict() for each in found}

    def make_rule(self, group: str, server: str, name: str, body: Json) -> None:
        with self._telling(f"make firewall rule {name}"):
            self._sql.firewall_rules.create_or_update(group, server, name, body)

    def _found(self, get: Any) -> Json | None:
        try:
            found: Json = get().as_dict()
        except self._errors.ResourceNotFoundError:
            return None
        return found

    @contextmanager
    def _telling(self, what: str) -> Generator[None]:
        """Says for people what the SDK raises."""
        try:
            yield
        except self._errors.ClientAuthenticationError as error:
            code, words = _said(error)
            raise NotSignedIn(_told(what, code, words, _HINTS.get(code, _SIGN_IN))) from error
        except self._errors.HttpResponseError as error:
            code, words = _said(error)
            raise AzureRefused(_told(what, code, words, _HINTS.get(code)), code) from error
        except self._errors.AzureError as error:
            raise AzureRefused(f"could not {what}: {_first_line(error)}") from error


def _told(what: str, code: str, words: str, hint: str | None) -> str:
    reason = words if not code or words.startswith(code) else f"{code}: {words}"
    return f"could not {what}: {reason}" + (f"; {hint}" if hint else "")


def _said(error: Any) -> tuple[str, str]:
    """Azure's code and words, from wherever the SDK keeps them."""
    told = getattr(error, "error", None)
    code = str(getattr(told, "code", None) or "")
    words = str(getattr(told, "message", None) or _first_line(error))
    return code, words.strip().rstrip(".")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the azure commands need the package {error.name}: pip install 'holdfast[azure,sqlserver]'"
        ) from error
