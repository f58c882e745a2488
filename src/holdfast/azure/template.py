"""How Azure is told what is wanted: the bodies of its resources, and the ARM template that is made of them.

One source for both ways. The command sends these bodies with their values in them; in the template the same
bodies have parameters in their places. `deploy/azure/azuredeploy.json` is this template.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from holdfast.azure.wanted import DATABASE, PRINCIPALS, Administrator, Rule, Wanted

Json: TypeAlias = dict[str, Any]

SERVERS: Final = "Microsoft.Sql/servers"
DATABASES: Final = "Microsoft.Sql/servers/databases"
RULES: Final = "Microsoft.Sql/servers/firewallRules"
API_VERSION: Final = "2023-08-01"
TAGS: Final = {"made-by": "holdfast"}
FREE_BYTES: Final = 32 * 1024**3
"""As large as a database of the free offer may grow."""

_SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
_PARAMETERS_SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#"


def group_body(location: str) -> Json:
    return {"location": location, "tags": TAGS}


def server_body(location: str, *, login: str, sid: str, tenant: str, kind: str) -> Json:
    """A server whose only door is Entra ID: it has no login and no password of its own."""
    return {
        "location": location,
        "tags": TAGS,
        "properties": {
            "version": "12.0",
            "minimalTlsVersion": "1.2",
            "publicNetworkAccess": "Enabled",
            "administrators": {
                "administratorType": "ActiveDirectory",
                "principalType": kind,
                "login": login,
                "sid": sid,
                "tenantId": tenant,
                "azureADOnlyAuthentication": True,
            },
        },
    }


def database_body(location: str, *, use_free_limit: bool | str, when_exhausted: str | None) -> Json:
    """A serverless database: it grows to two cores, and pauses after an hour without sessions."""
    limit = {"useFreeLimit": use_free_limit, "freeLimitExhaustionBehavior": when_exhausted}
    return {
        "location": location,
        "tags": TAGS,
        "sku": {"name": "GP_S_Gen5", "tier": "GeneralPurpose", "family": "Gen5", "capacity": 2},
        "properties": {
            "autoPauseDelay": 60,
            "minCapacity": 0.5,
            "maxSizeBytes": FREE_BYTES,
            "requestedBackupStorageRedundancy": "Local",
            **{name: value for name, value in limit.items() if value is not None},
        },
    }


def rule_body(start: str, end: str) -> Json:
    return {"properties": {"startIpAddress": start, "endIpAddress": end}}


def server_of(wanted: Wanted, administrator: Administrator) -> Json:
    return server_body(
        wanted.location,
        login=administrator.login,
        sid=administrator.sid,
        tenant=administrator.tenant,
        kind=administrator.kind,
    )


def database_of(wanted: Wanted) -> Json:
    return database_body(
        wanted.location,
        use_free_limit=wanted.is_free,
        when_exhausted="AutoPause" if wanted.is_free else None,
    )


def template() -> Json:
    """The template for a resource group that is there: server, database and firewall.

    What exists should be left as it is, for Azure refuses an administrator in an update of a server; whoever
    deploys finds out, and says so by `createServer` and `createDatabase`.
    """
    rule = "parameters('firewallRules')[copyIndex()]"
    after_server = [f"[resourceId('{SERVERS}', parameters('serverName'))]"]
    return {
        "$schema": _SCHEMA,
        "contentVersion": "1.0.0.0",
        "metadata": {"description": "An Azure SQL database for Holdfast, with Entra ID sign-in only."},
        "parameters": _declared(),
        "resources": [
            {
                "type": SERVERS,
                "apiVersion": API_VERSION,
                "name": _parameter("serverName"),
                "condition": _parameter("createServer"),
                **server_body(
                    _parameter("location"),
                    login=_parameter("administratorLogin"),
                    sid=_parameter("administratorSid"),
                    tenant=_parameter("administratorTenantId"),
                    kind=_parameter("administratorType"),
                ),
            },
            {
                "type": DATABASES,
                "apiVersion": API_VERSION,
                "name": "[concat(parameters('serverName'), '/', parameters('databaseName'))]",
                "condition": _parameter("createDatabase"),
                "dependsOn": after_server,
                **database_body(
                    _parameter("location"),
                    use_free_limit=_parameter("useFreeLimit"),
                    when_exhausted="[if(parameters('useFreeLimit'), 'AutoPause', null())]",
                ),
            },
            {
                "type": RULES,
                "apiVersion": API_VERSION,
                "name": f"[concat(parameters('serverName'), '/', {rule}.name)]",
                "copy": {"name": "firewallRules", "count": "[length(parameters('firewallRules'))]"},
                "dependsOn": after_server,
                **rule_body(f"[{rule}.startIpAddress]", f"[{rule}.endIpAddress]"),
            },
        ],
        "outputs": {
            "storeUrl": {
                "type": "string",
                "value": "[concat('mssql://', parameters('serverName'), "
                "environment().suffixes.sqlServerHostname, '/', parameters('databaseName'))]",
            }
        },
    }


def values(wanted: Wanted, administrator: Administrator | None) -> Json:
    """The template's parameters for what is wanted; what is not known of the administrator is left open."""
    given: Json = {
        "location": wanted.location,
        "serverName": wanted.server,
        "databaseName": wanted.database,
        "useFreeLimit": wanted.is_free,
        "firewallRules": [_rule(rule) for rule in wanted.rules],
    }
    if administrator is not None:
        given |= {
            "administratorLogin": administrator.login,
            "administratorSid": administrator.sid,
            "administratorType": administrator.kind,
        }
        if administrator.tenant:
            given["administratorTenantId"] = administrator.tenant
    return given


def filled(wanted: Wanted, administrator: Administrator | None) -> Json:
    """The template with what is wanted as the defaults of its parameters: it can be deployed as it is."""
    document = template()
    for name, value in values(wanted, administrator).items():
        # A text that begins with a bracket would be taken for an expression; a second one makes it a text.
        is_bracketed = isinstance(value, str) and value.startswith("[")
        document["parameters"][name]["defaultValue"] = f"[{value}" if is_bracketed else value
    return document


def parameters_file(wanted: Wanted, administrator: Administrator | None) -> Json:
    """What is wanted as a file of parameters beside the template."""
    given = values(wanted, administrator)
    return {
        "$schema": _PARAMETERS_SCHEMA,
        "contentVersion": "1.0.0.0",
        "parameters": {name: {"value": value} for name, value in given.items()},
    }


def _declared() -> Json:
    return {
        "location": _declare("string", "The region.", "[resourceGroup().location]"),
        "serverName": _declare("string", "Unique in the world: it becomes a host name."),
        "databaseName": _declare("string", "The database.", DATABASE),
        "administratorLogin": _declare("string", "The name of the administrator in Entra ID."),
        "administratorSid": _declare("string", "His object id; for an application, its client id."),
        "administratorTenantId": _declare("string", "His tenant.", "[subscription().tenantId]"),
        "administratorType": {
            **_declare("string", "What he is.", "User"),
            "allowedValues": list(PRINCIPALS),
        },
        "useFreeLimit": _declare("bool", "Use the free offer; it pauses when the month's is used up.", True),
        "firewallRules": _declare(
            "array", "Who may connect: objects with name, startIpAddress and endIpAddress.", []
        ),
        "createServer": _declare("bool", "False leaves a server that is there as it is.", True),
        "createDatabase": _declare("bool", "False leaves a database that is there as it is.", True),
    }


def _declare(type: str, description: str, default: object = None) -> Json:
    declared: Json = {"type": type, "metadata": {"description": description}}
    return declared if default is None else {**declared, "defaultValue": default}


def _parameter(name: str) -> str:
    return f"[parameters('{name}')]"


def _rule(rule: Rule) -> Json:
    return {"name": rule.name, "startIpAddress": rule.start, "endIpAddress": rule.end}
