"""What goes wrong between here and Azure."""

from __future__ import annotations

from holdfast.model.errors import HoldfastError


class AzureRefused(HoldfastError):
    """Azure did not do what it was asked; `code` is its own word for why, where it gave one."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class NotSignedIn(HoldfastError):
    """Azure cannot be asked, because nobody is signed in here."""


class NotProvisioned(HoldfastError):
    """What was wanted is not all there. Running the same again goes on from where this ended."""
