"""A place for Holdfast in Azure: group, server without passwords, database, firewall, schema and users.

`wanted` is what was asked for, `template` how Azure is told, `plan` compares that with what is there and
`provisioning` does what is missing. The Azure SDK is known to `cloud` alone. See docs/azure.md.
"""
