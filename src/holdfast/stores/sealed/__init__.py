"""Any store, with arguments, results and event data encrypted on their way in and decrypted on their way out.

Here is the encryption, and a wrapper around a store and its sessions that applies it. What encrypted bytes
look like from outside is in `holdfast.model.sealed`; whose keys these are, in `holdfast.model.encryption`.
Names, keys, tags, errors and progress are not encrypted: stores and operators need them.
"""

from holdfast.stores.sealed.store import SealedStore

__all__ = ["SealedStore"]
