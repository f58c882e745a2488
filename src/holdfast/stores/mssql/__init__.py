"""The SQL Server store: one schema of a SQL Server or Azure SQL database, which any number of machines share.

Read `store` first, then `jobs` (what is sent) and `migrations/`, where the store's work is done: every
operation is one call of a stored procedure, whose version is part of its name. `database` has the threads and
connections, `driver` what the two drivers have in common, `credential` the sign-in without a password,
`transactions` what happens inside a transaction of somebody else.
"""

from holdfast.stores.mssql.store import MssqlStore

__all__ = ["MssqlStore"]
