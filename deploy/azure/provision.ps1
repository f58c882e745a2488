#Requires -Version 7.2
#Requires -Modules Az.Accounts, Az.Resources, Az.Sql

<#
.SYNOPSIS
Makes an Azure SQL database for Holdfast that is entered with Entra ID only.

.DESCRIPTION
Deploys azuredeploy.json, which lies beside this script, into a resource group. Safe to run again: what is
there stays as it is, what is missing is made. Sign in with Connect-AzAccount first.

The tables and the users of workers are made by "holdfast azure provision", which finds all this in place, or by
"holdfast migrate" and the T-SQL in docs/azure.md.

.EXAMPLE
./provision.ps1 -SubscriptionId 00000000-0000-0000-0000-000000000000 -AllowIp 203.0.113.7
#>
[CmdletBinding(SupportsShouldProcess, ConfirmImpact = 'High')]
param(
    [Parameter(Mandatory)]
    [guid] $SubscriptionId,

    [ValidateNotNullOrEmpty()]
    [string] $ResourceGroup = 'cristp-reltaskexec',

    [ValidateNotNullOrEmpty()]
    [string] $Location = 'westus2',

    [string] $ServerName,

    [ValidateNotNullOrEmpty()]
    [string] $DatabaseName = 'holdfast',

    [string] $AdministratorLogin,

    [string] $AdministratorObjectId,

    [ValidateSet('User', 'Group', 'Application')]
    [string] $AdministratorType = 'User',

    [ipaddress[]] $AllowIp = @(),

    [switch] $AllowAzureServices,

    [switch] $NoFree
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

# The same name as that of "holdfast azure provision": from group and subscription, so that it is the same each time.
function Get-DefaultServerName([string] $Subscription, [string] $Group) {
    $text = "$Subscription/$Group".ToLowerInvariant()
    $hash = [System.Security.Cryptography.SHA256]::HashData([System.Text.Encoding]::UTF8.GetBytes($text))
    $digest = [System.Convert]::ToHexString($hash).ToLowerInvariant().Substring(0, 10)
    $words = $Group.ToLowerInvariant() -replace '[^a-z0-9]+', '-'
    $words = $words.Substring(0, [System.Math]::Min(50, $words.Length)).Trim('-')
    if (-not $words) { $words = 'holdfast' }
    return "$words-$digest"
}

# Also under -WhatIf, which else would look into another subscription.
$context = Set-AzContext -Subscription $SubscriptionId -WhatIf:$false -Confirm:$false
if (-not $ServerName) {
    $ServerName = Get-DefaultServerName -Subscription $SubscriptionId.ToString() -Group $ResourceGroup
}

if ([bool] $AdministratorLogin -ne [bool] $AdministratorObjectId) {
    throw 'AdministratorLogin and AdministratorObjectId go together.'
}
if (-not $AdministratorLogin) {
    $user = Get-AzADUser -SignedIn
    $AdministratorLogin = $user.UserPrincipalName
    $AdministratorObjectId = $user.Id
    $AdministratorType = 'User'
}

# Looked for in lists: asked for by name, what is refused would seem to be missing.
$group = Get-AzResourceGroup | Where-Object -Property 'ResourceGroupName' -EQ $ResourceGroup
$server = $null
$database = $null
if ($group) {
    $server = Get-AzSqlServer -ResourceGroupName $ResourceGroup | Where-Object -Property 'ServerName' -EQ $ServerName
}
if ($server) {
    $only = Get-AzSqlServerActiveDirectoryOnlyAuthentication -ResourceGroupName $ResourceGroup -ServerName $ServerName
    if (-not $only.AzureADOnlyAuthentication) {
        throw "Server $ServerName is there and takes more than Entra ID. Turn on Entra-only authentication for it, or choose another name."
    }
    $database = Get-AzSqlDatabase -ResourceGroupName $ResourceGroup -ServerName $ServerName |
        Where-Object -Property 'DatabaseName' -EQ $DatabaseName
}

$rules = @($AllowIp | ForEach-Object {
        @{ name = 'allow-' + "$_".Replace('.', '-'); startIpAddress = "$_"; endIpAddress = "$_" }
    })
if ($AllowAzureServices) {
    $rules += @{ name = 'AllowAllWindowsAzureIps'; startIpAddress = '0.0.0.0'; endIpAddress = '0.0.0.0' }
}

@(
    [pscustomobject]@{ What = 'resource group'; Name = $ResourceGroup; IsThere = [bool] $group }
    [pscustomobject]@{ What = 'server'; Name = $ServerName; IsThere = [bool] $server }
    [pscustomobject]@{ What = 'database'; Name = $DatabaseName; IsThere = [bool] $database }
) | Format-Table | Out-Host

if (-not $PSCmdlet.ShouldProcess("subscription $SubscriptionId", 'Make what is missing')) {
    return
}
if (-not $group) {
    New-AzResourceGroup -Name $ResourceGroup -Location $Location -Tag @{ 'made-by' = 'holdfast' } | Out-Null
}

$deployment = New-AzResourceGroupDeployment `
    -ResourceGroupName $ResourceGroup `
    -TemplateFile (Join-Path $PSScriptRoot 'azuredeploy.json') `
    -Mode Incremental `
    -TemplateParameterObject @{
        location              = $Location
        serverName            = $ServerName
        databaseName          = $DatabaseName
        administratorLogin    = $AdministratorLogin
        administratorSid      = $AdministratorObjectId
        administratorTenantId = $context.Tenant.Id
        administratorType     = $AdministratorType
        useFreeLimit          = -not $NoFree
        firewallRules         = $rules
        createServer          = -not $server
        createDatabase        = -not $database
    }

Write-Output $deployment.Outputs.storeUrl.Value
