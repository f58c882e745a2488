"""Settings under one name. They stand in for the defaults: whatever else says something comes before them."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.model.overrides import Overrides

JOBS = Overrides(
    lease_seconds=120.0,
    poll_seconds=60.0,
    retry="immediate",
    interval_seconds=600.0,
    lost_limit=1_000_000_000,
)
"""The rules of a table of recurring jobs whose rows workers lock by hand; docs/jobs-profile.md compares.

The heartbeat is a quarter of the lease by itself, and scales with it. A job whose workers are lost is given
to others for ever, because such a table has no place for it to end in.
"""

PRESETS: Mapping[str, Overrides] = {"jobs": JOBS}
