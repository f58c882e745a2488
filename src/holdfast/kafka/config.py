"""What a Kafka client is told, and what it must not tell others."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from holdfast.model.errors import ConfigurationError
from holdfast.model.masking import mask

log = logging.getLogger("holdfast.kafka")

_SECRET = re.compile(r"(?i)pass|secret|token|jaas|pem|private|credential|oauthbearer\.config")
_SAME = {"request.required.acks": "acks", "delivery.timeout.ms": "message.timeout.ms"}
_EXPERIMENTAL = "enable.gapless.guarantee is experimental"


class ClientConfig:
    """Settings of a librdkafka client: the user's, over our defaults, under those that we cannot do without.

    Shows no more of itself than the servers.
    """

    def __init__(
        self, given: str | Mapping[str, Any], *, owned: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> None:
        chosen = {"bootstrap.servers": given} if isinstance(given, str) else dict(given)
        if not chosen.get("bootstrap.servers") and "test.mock.num.brokers" not in chosen:
            raise ConfigurationError(
                'is missing; give the brokers, for instance "kafka-1:9092,kafka-2:9092"',
                setting="bootstrap.servers",
            )
        for name, value in chosen.items():
            ours = owned.get(_SAME.get(name, name))
            if ours is not None and _plain(value) != _plain(ours):
                raise ConfigurationError(
                    f"must be {_plain(ours)} here, which Holdfast sees to; leave it out", setting=name
                )
        self._settings = {**defaults, **chosen, **owned}
        self._secrets = sorted(
            (value for name, value in chosen.items() if _SECRET.search(name) and isinstance(value, str)),
            key=len,
            reverse=True,
        )

    def __repr__(self) -> str:
        return f"ClientConfig({self.servers!r})"

    @property
    def servers(self) -> str:
        return mask(str(self._settings.get("bootstrap.servers", "")))

    def settings(self, **callbacks: Any) -> dict[str, Any]:
        """The whole configuration, secrets and all: for the client, and for nobody else."""
        return {**self._settings, "logger": _Logger(self), **callbacks}

    def clean(self, text: object) -> str:
        """The text without any secret of this configuration."""
        cleaned = str(text)
        for secret in self._secrets:
            if secret:
                cleaned = cleaned.replace(secret, "***")
        return mask(cleaned)

    def refused(self, error: Exception) -> ConfigurationError:
        """What to raise when the client refuses it: by itself, since the client's own error may tell all."""
        return ConfigurationError(self.clean(error), setting="kafka")


class _Logger:
    """Stands where librdkafka wants a logger; without one it writes to standard error."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    def log(self, level: int, template: str, *args: object) -> None:
        level = min(level, logging.WARNING)  # what it calls fatal is raised, and outlived
        if not log.isEnabledFor(level):
            return
        said = template % args if args else template
        if _EXPERIMENTAL not in said:  # it has been since 2019, and is asked for by us
            log.log(level, "%s", self._config.clean(said))


def _plain(value: object) -> str:
    text = str(value).lower()
    return "all" if text == "-1" else text
