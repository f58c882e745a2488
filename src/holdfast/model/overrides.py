"""The settings as keywords, for type checkers; a test keeps them equal to `Settings`."""

from __future__ import annotations

from typing import TypedDict


class Overrides(TypedDict, total=False):
    """Settings given in code. None counts as not given."""

    store: str | None
    namespace: str | None
    auto_migrate: bool | None
    preset: str | None
    lease_seconds: float | None
    heartbeat_seconds: float | None
    call_timeout_seconds: float | None
    poll_seconds: float | None
    concurrency: int | None
    batch: int | None
    prefetch_seconds: float | None
    grace_seconds: float | None
    kill_seconds: float | None
    retry: str | None
    interval_seconds: float | None
    leader_candidate: bool | None
    leader_lease_seconds: float | None
    event_consumer: bool | None
    reclaim_seconds: float | None
    lost_limit: int | None
    retention_seconds: float | None
    event_retention_seconds: float | None
    key_ttl_seconds: float | None
    enqueue_timeout_seconds: float | None
    payload_bytes: int | None
    result_bytes: int | None
    error_bytes: int | None
    encryption_keys: str | None
    encryption_keys_file: str | None
    redact_names: str | None
    log_format: str | None
    log_level: str | None
