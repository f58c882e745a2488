"""What things are: values and rules, without I/O, clock or randomness of their own.

Here: jobs and their states, leases and timing, retry strategies, payload rules, settings, and the one
exception tree. Not here: anything that waits, stores, or starts something; see `holdfast.engine` and
`holdfast.stores`.
"""
