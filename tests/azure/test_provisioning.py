"""The real SDK against a stand-in for Azure Resource Manager."""

from contextlib import nullcontext

import pytest

from holdfast.azure.cloud import Cloud
from holdfast.azure.plan import Plan, State, survey
from holdfast.azure.provisioning import carry_out
from holdfast.azure.wanted import ALLOW_AZURE, Administrator, Wanted, allowed
from holdfast.model.errors import AzureRefused, NotProvisioned, NotSignedIn
from tests.azure.arm import Fault, refusal
from tests.azure.conftest import OBJECT, SUBSCRIPTION, TENANT, Azure

WANTED = Wanted(
    subscription=SUBSCRIPTION,
    server="jobs-1234",
    group="jobs",
    rules=(allowed("203.0.113.7"), ALLOW_AZURE),
)
ADMIN = Administrator("dev@example.org", OBJECT, TENANT)
GROUP = "/resourceGroups/jobs"
SERVER = "/resourceGroups/jobs/providers/Microsoft.Sql/servers/jobs-1234"
DATABASE = f"{SERVER}/databases/holdfast"


def provision(cloud: Cloud, wanted: Wanted = WANTED) -> Plan:
    plan = survey(cloud, wanted, ADMIN)
    carry_out(plan, lambda step: nullcontext())
    return plan


def states(plan: Plan) -> dict[str, State]:
    return {f"{step.what} {step.name}": step.state for step in plan.steps}


def test_a_first_run_makes_all_in_order(azure: Azure, cloud: Cloud) -> None:
    plan = provision(cloud)
    assert set(states(plan).values()) == {State.MISSING}
    assert [path for _, path in azure.arm.changes()] == [
        GROUP,
        SERVER,
        DATABASE,
        f"{SERVER}/firewallRules/allow-203-0-113-7",
        f"{SERVER}/firewallRules/AllowAllWindowsAzureIps",
    ]


def test_the_server_knows_entra_id_only(azure: Azure, cloud: Cloud) -> None:
    provision(cloud)
    properties = azure.arm.resources[SERVER]["properties"]
    assert properties["administrators"] == {
        "administratorType": "ActiveDirectory",
        "principalType": "User",
        "login": "dev@example.org",
        "sid": OBJECT,
        "tenantId": TENANT,
        "azureADOnlyAuthentication": True,
    }
    assert "password" not in str(azure.arm.resources).lower()
    assert "administratorLogin" not in properties


def test_the_database_is_serverless_and_free(azure: Azure, cloud: Cloud) -> None:
    provision(cloud)
    made = azure.arm.resources[DATABASE]
    assert made["sku"] == {"name": "GP_S_Gen5", "tier": "GeneralPurpose", "family": "Gen5", "capacity": 2}
    assert made["properties"]["useFreeLimit"] is True
    assert made["properties"]["freeLimitExhaustionBehavior"] == "AutoPause"
    assert made["properties"]["autoPauseDelay"] == 60


def test_long_operations_are_waited_for(azure: Azure, cloud: Cloud) -> None:
    provision(cloud)
    asked = [path for _, path in azure.arm.requests]
    assert asked.index("/operations/0") < asked.index(DATABASE)
    assert asked.count("/operations/0") == 2


def test_between_two_looks_the_command_waits_as_long_as_it_was_told(azure: Azure) -> None:
    with azure.cloud(poll_seconds=3) as cloud:
        provision(cloud)
    assert set(azure.slept) == {3}


def test_a_second_run_makes_nothing(azure: Azure, cloud: Cloud) -> None:
    provision(cloud)
    before = azure.arm.changes()
    plan = provision(cloud)
    assert set(states(plan).values()) == {State.THERE}
    assert azure.arm.changes() == before


def test_a_survey_changes_nothing(azure: Azure, cloud: Cloud) -> None:
    survey(cloud, WANTED, ADMIN)
    assert azure.arm.changes() == []


def test_a_failure_half_way_says_what_was_made_and_the_next_run_goes_on(azure: Azure, cloud: Cloud) -> None:
    azure.arm.failing[DATABASE] = refusal("ProvisioningDisabled", "Not in this region.")
    with pytest.raises(NotProvisioned) as caught:
        provision(cloud)
    assert str(caught.value) == (
        "could not make database holdfast: ProvisioningDisabled: Not in this region; choose another region "
        "with --location. Made before that: resource group jobs, server jobs-1234. "
        "When the cause is gone, run the same again to go on"
    )
    assert DATABASE not in azure.arm.resources
    azure.arm.failing.clear()
    before = len(azure.arm.changes())
    plan = provision(cloud)
    assert states(plan)["server jobs-1234"] is State.THERE
    assert states(plan)["database holdfast"] is State.MISSING
    assert [path for _, path in azure.arm.changes()[before:]] == [
        DATABASE,
        f"{SERVER}/firewallRules/allow-203-0-113-7",
        f"{SERVER}/firewallRules/AllowAllWindowsAzureIps",
    ]
    assert DATABASE in azure.arm.resources


def test_a_refusal_at_once_is_told_in_azures_words(azure: Azure, cloud: Cloud) -> None:
    azure.arm.faults.append(Fault("PUT", GROUP, 409, refusal("ResourceGroupBeingDeleted", "It goes away.")))
    with pytest.raises(NotProvisioned, match=r"ResourceGroupBeingDeleted: It goes away; the group is being"):
        provision(cloud)
    assert azure.arm.changes() == [("PUT", GROUP)]


def test_too_many_requests_are_waited_out_for_as_long_as_azure_says(azure: Azure, cloud: Cloud) -> None:
    azure.arm.faults.append(
        Fault("PUT", DATABASE, 429, refusal("TooManyRequests", "Slowly."), {"Retry-After": "17"})
    )
    provision(cloud)
    assert 17 in azure.slept
    assert azure.arm.changes().count(("PUT", DATABASE)) == 2
    assert DATABASE in azure.arm.resources


def test_a_group_that_is_being_deleted_is_left_alone(azure: Azure, cloud: Cloud) -> None:
    azure.arm.resources[GROUP] = {"properties": {"provisioningState": "Deleting"}, "location": "westus2"}
    with pytest.raises(NotProvisioned, match="resource group jobs is being deleted"):
        provision(cloud)
    assert azure.arm.changes() == []


def test_a_name_that_is_taken_is_known_before_anything_is_made(azure: Azure, cloud: Cloud) -> None:
    azure.arm.taken.add("jobs-1234")
    with pytest.raises(NotProvisioned, match="no server can be called jobs-1234: Somebody has it; choose"):
        provision(cloud)
    assert azure.arm.changes() == []


@pytest.mark.parametrize("administrators", [None, {"azureADOnlyAuthentication": False, "login": "sa"}])
def test_a_server_that_takes_passwords_is_refused(
    azure: Azure, cloud: Cloud, administrators: dict[str, object] | None
) -> None:
    provision(cloud)
    azure.arm.resources[SERVER]["properties"]["administrators"] = administrators
    before = azure.arm.changes()
    with pytest.raises(NotProvisioned, match="server jobs-1234 is there and takes passwords"):
        provision(cloud)
    assert azure.arm.changes() == before


def test_another_administrator_is_refused_only_if_one_was_named(azure: Azure, cloud: Cloud) -> None:
    provision(cloud)
    other = Administrator("ops", "12121212-3434-5656-7878-909090909090", TENANT, "Group")
    with pytest.raises(NotProvisioned, match=r"its administrator is dev@example.org, not ops"):
        survey(cloud, WANTED, other, is_asked=True)
    assert survey(cloud, WANTED, other).administrator == "dev@example.org"


def test_a_rule_of_ours_with_another_range_is_changed(azure: Azure, cloud: Cloud) -> None:
    provision(cloud)
    rule = f"{SERVER}/firewallRules/allow-203-0-113-7"
    azure.arm.resources[rule]["properties"]["endIpAddress"] = "203.0.113.99"
    plan = provision(cloud)
    assert [step.name for step in plan.steps if step.state is State.DIFFERENT] == ["allow-203-0-113-7"]
    assert azure.arm.resources[rule]["properties"]["endIpAddress"] == "203.0.113.7"


def test_what_stands_elsewhere_is_said(azure: Azure, cloud: Cloud) -> None:
    azure.arm.resources[GROUP] = {"location": "East US"}
    step = survey(cloud, WANTED, ADMIN).steps[0]
    assert (step.state, step.note) == (State.THERE, "in eastus")


def test_a_token_that_azure_does_not_take_is_a_matter_of_signing_in(azure: Azure, cloud: Cloud) -> None:
    azure.arm.faults.append(
        Fault("GET", GROUP, 401, refusal("InvalidAuthenticationTokenTenant", "Wrong tenant."))
    )
    with pytest.raises(NotSignedIn, match="az login --tenant ID"):
        provision(cloud)


def test_an_azure_that_cannot_be_reached_is_no_defect(azure: Azure) -> None:
    azure.arm.url = "http://127.0.0.1:1"
    with azure.cloud() as cloud, pytest.raises(AzureRefused, match="could not look for resource group jobs"):
        provision(cloud)


def test_deleting_a_group_waits_until_it_is_gone(azure: Azure, cloud: Cloud) -> None:
    provision(cloud)
    cloud.delete_group("jobs")
    assert azure.arm.requests.count(("GET", azure.arm.requests[-1][1])) >= 2
    assert azure.arm.requests[-1][1].startswith("/operations/")


def test_a_lock_keeps_a_group(azure: Azure, cloud: Cloud) -> None:
    provision(cloud)
    azure.arm.faults.append(Fault("DELETE", GROUP, 409, refusal("ScopeLocked", "It is locked.")))
    with pytest.raises(AzureRefused, match="a lock in Azure forbids it") as caught:
        cloud.delete_group("jobs")
    assert caught.value.code == "ScopeLocked"
    assert GROUP in azure.arm.resources
