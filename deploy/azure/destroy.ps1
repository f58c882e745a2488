#Requires -Version 7.2
#Requires -Modules Az.Accounts, Az.Resources

<#
.SYNOPSIS
Deletes a resource group with all that is in it. There is no way back.

.DESCRIPTION
Shows what is in the group, and asks for its name to be typed. Sign in with Connect-AzAccount first.

.EXAMPLE
./destroy.ps1 -SubscriptionId 00000000-0000-0000-0000-000000000000
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory)]
    [guid] $SubscriptionId,

    [ValidateNotNullOrEmpty()]
    [string] $ResourceGroup = 'cristp-reltaskexec',

    # The group's name, for scripts: then nobody is asked.
    [string] $Yes
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

Set-AzContext -Subscription $SubscriptionId | Out-Null
# Looked for in the list: asked for by name, a group that is refused would seem to be gone.
$group = Get-AzResourceGroup | Where-Object -Property 'ResourceGroupName' -EQ $ResourceGroup
if (-not $group) {
    Write-Output "Resource group $ResourceGroup is gone."
    return
}

Get-AzResource -ResourceGroupName $ResourceGroup | Format-Table -Property 'Name', 'ResourceType', 'Location' | Out-Host
$typed = $Yes
if (-not $typed) {
    $typed = Read-Host "Type $ResourceGroup to delete all this"
}
if ($typed -cne $ResourceGroup) {
    throw "'$typed' is not '$ResourceGroup': nothing was deleted."
}

Remove-AzResourceGroup -Name $ResourceGroup -Force | Out-Null
Write-Output "Resource group $ResourceGroup is gone."
