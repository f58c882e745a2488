"""Keys for tests, and secrets to look for."""

from base64 import urlsafe_b64encode
from hashlib import sha256

from holdfast.model.encryption import EncryptionKey


def key(seed: str) -> str:
    return EncryptionKey(sha256(seed.encode()).digest()).to_text()


OLD, NEW = key("old"), key("new")
OLD_ID, NEW_ID = EncryptionKey.from_text(OLD).id, EncryptionKey.from_text(NEW).id
BARE = urlsafe_b64encode(sha256(b"new").digest()).decode()
CANARY = "canary-5ecret-4111"
