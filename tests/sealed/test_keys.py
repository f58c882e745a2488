"""Keys as settings name them: read from everywhere, shown nowhere."""

import base64
from pathlib import Path

import pytest
import rich.pretty

from holdfast import ConfigurationError, Holdfast, Settings
from holdfast.config import load_keys, load_settings
from holdfast.model.encryption import EncryptionKey, parse_keys
from tests.sealed.keys import BARE, NEW, NEW_ID, OLD, OLD_ID


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    keys = parse_keys(f"{NEW},\n {OLD}  # from before\n")
    assert keys.ids == (NEW_ID, OLD_ID)
    assert not keys.writes_plain
    assert not keys.reads_plain
    assert keys.summary == f"by key {NEW_ID}; also read: {OLD_ID}"


def test_plain_is_a_key_that_does_nothing() -> None:
    assert parse_keys(f"plain {NEW}")[1:] == (True, True)
    assert parse_keys(f"{NEW} plain")[1:] == (False, True)
    assert parse_keys(f"plain {NEW}").summary == f"off; read: plain, {NEW_ID}"


def test_a_key_may_be_any_32_bytes_in_base64() -> None:
    secret = EncryptionKey.from_text(NEW).secret
    for text in (BARE, BARE.rstrip("="), base64.b64encode(secret).decode()):
        assert EncryptionKey.from_text(text).id == NEW_ID


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no key"),
        ("plain", "there is no key"),
        ("hfk1_" + "A" * 20, "key 1 is too short: it has 15 bytes instead of 32"),
        (f"{NEW} {'B' * 60}", "key 2 is too long: it has 45 bytes instead of 32"),
        ("hfk1_" + "A" * 43, "key 1 is not random"),
        ("not a key!", "key 1 is not base64"),
        ("ключ", "key 1 is not base64"),
        (f"{NEW} {NEW}", f"key 2 ({NEW_ID}) is there twice"),
    ],
)
def test_what_cannot_be_a_key_is_refused_by_its_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match="encryption_keys: ") as caught:
        parse_keys(text)
    assert problem in str(caught.value)
    assert NEW not in str(caught.value)


def test_keys_come_from_the_environment_a_file_of_settings_or_a_file_of_their_own(tmp_path: Path) -> None:
    toml, own = tmp_path / "holdfast.toml", tmp_path / "keys"
    toml.write_text(f'encryption_keys = "{OLD}"\n')
    own.write_text(f"{NEW}\n{OLD}\n")
    from_file = load_settings(file=toml, environ={})
    from_environment = load_settings(file=toml, environ={"HOLDFAST_ENCRYPTION_KEYS": NEW})
    of_their_own = load_settings(environ={"HOLDFAST_ENCRYPTION_KEYS_FILE": str(own)})
    found = [load_keys(each) for each in (from_file, from_environment, of_their_own, Settings())]
    assert [keys and keys.ids for keys in found] == [(OLD_ID,), (NEW_ID,), (NEW_ID, OLD_ID), None]


def test_a_file_of_keys_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"encryption_keys_file: cannot read '.*none'"):
        load_keys(Settings(encryption_keys_file=str(tmp_path / "none")))
    odd = tmp_path / "odd"
    odd.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"encryption_keys_file: '.*odd' is not text"):
        load_keys(Settings(encryption_keys_file=str(odd)))
    odd.write_text("short")
    with pytest.raises(ConfigurationError, match="encryption_keys_file: key 1 is not base64"):
        load_keys(Settings(encryption_keys_file=str(odd)))


def test_keys_and_a_file_of_keys_are_one_too_many() -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        Settings(encryption_keys=NEW, encryption_keys_file="keys")


def test_no_form_of_the_settings_shows_a_key() -> None:
    settings = Settings(encryption_keys=f"{NEW} {OLD}")
    shown = repr(settings) + str(settings) + rich.pretty.pretty_repr(settings) + repr(parse_keys(NEW))
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"encryption_keys": [NEW]})
    shown += str(caught.value) + repr(Holdfast("memory://", encryption_keys=NEW))
    assert NEW[5:] not in shown
    assert OLD[5:] not in shown
    assert NEW_ID in shown
