"""The HTTP interface and the dashboard: an ASGI application over one Holdfast application.

Here: routes by noun, who may call them, the live stream, and the document that describes it all. Not here:
what jobs are and do. Everything is asked of the application's public face, as any other program would.
"""

from holdfast.web.access import Identity, Role, Token, Tokens, new_secret, parse_tokens
from holdfast.web.application import Web
from holdfast.web.making import create
from holdfast.web.origin import Hosts
from holdfast.web.site import Bounds

__all__ = [
    "Bounds",
    "Hosts",
    "Identity",
    "Role",
    "Token",
    "Tokens",
    "Web",
    "create",
    "new_secret",
    "parse_tokens",
]
