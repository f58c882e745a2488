"""Who is signed in, as the access token itself tells: nobody else needs to be asked."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from holdfast.azure.wanted import Administrator
from holdfast.model.errors import NotSignedIn

SCOPE: Final = "https://management.azure.com/.default"


class Claims(msgspec.Struct, frozen=True):
    """What is read of a token. It is not verified: Azure does that with every call that carries it."""

    oid: str = ""
    tid: str = ""
    appid: str = ""
    app_displayname: str = ""
    idtyp: str = ""
    upn: str = ""
    unique_name: str = ""
    preferred_username: str = ""

    @property
    def is_application(self) -> bool:
        """Users have a name to sign in with; applications and managed identities have none."""
        return self.idtyp == "app" or not self.name

    @property
    def name(self) -> str:
        return self.upn or self.preferred_username or self.unique_name


def claims_of(token: str) -> Claims:
    """The claims of an access token. What is raised never has a part of the token in it."""
    parts = token.split(".")
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(body, type=Claims)
    except (IndexError, binascii.Error, UnicodeDecodeError, msgspec.DecodeError):
        raise NotSignedIn(f"the access token does not tell who is signed in; {_INSTEAD}") from None


def signed_in(token: str) -> Administrator:
    """Whoever the token belongs to, as an administrator."""
    claims = claims_of(token)
    sid = claims.appid if claims.is_application else claims.oid
    login = (claims.app_displayname or claims.appid) if claims.is_application else claims.name
    if not (sid and login and claims.tid):
        raise NotSignedIn(f"the access token does not tell who is signed in; {_INSTEAD}")
    return Administrator(login, sid, claims.tid, "Application" if claims.is_application else "User")


def tenant_of(token: str) -> str:
    tenant = claims_of(token).tid
    if not tenant:
        raise NotSignedIn("the access token does not tell the tenant; give --tenant-id")
    return tenant


_INSTEAD = "name the administrator with --admin-login, --admin-object-id and --tenant-id"
