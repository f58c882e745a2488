"""Values after the `?` of a store's URL."""

from holdfast.model.errors import ConfigurationError

_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


def number(setting: str, text: str, least: float, most: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not least <= found <= most:
        raise wrong(f"{setting}={text!r} is not a number from {least:g} to {most:g}")
    return found


def switch(setting: str, text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise wrong(f"{setting}={text!r} is not on or off")
    return _SWITCH[text.lower()]


def wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, setting="store")
