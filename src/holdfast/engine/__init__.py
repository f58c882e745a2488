"""What runs: client, worker, runners, heartbeat, janitor.

Everything here knows the values of `holdfast.model` and the seam `holdfast.store`, and never a concrete
store. Deciding is done in `holdfast.model`; what is here waits, calls, and reports.
"""
