"""Every error of the server, told by number or by words, means the same."""

import pytest

from holdfast.model.errors import (
    ConfigurationError,
    HoldfastError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from holdfast.stores.mssql.driver import Fault
from holdfast.stores.mssql.faults import is_broken, is_deadlock, is_taken, number_of, translated

# Those that public lists of transient faults have in common, at the least.
NOT_DONE = (1203, 1204, 1205, 1222, 3960, 3966, 4060, 4221, 8628, 8645, 8651, 10928, 10929, 10936)
NOT_DONE_IN_AZURE = (40501, 40613, 49918, 49919, 49920)
CUT_OFF = (-2, 20, 64, 121, 233, 10053, 10054, 10060, 40143, 40197, 40540)

WORDS = {
    1205: "Transaction (Process ID 52) was deadlocked on lock resources with another process",
    1222: "Lock request time out period exceeded.",
    1204: "The instance of the SQL Server Database Engine cannot obtain a LOCK resource at this time.",
    3960: "Snapshot isolation transaction aborted due to update conflict.",
    3906: 'Failed to update database "jobs" because the database is read-only.',
    4060: 'Cannot open database "jobs" requested by the login. The login failed.',
    4221: "Login to read-secondary failed due to long wait on 'HADR_DATABASE_WAIT'.",
    8645: "A timeout occurred while waiting for memory resources to execute the query",
    701: "There is insufficient system memory in resource pool 'default' to run this query.",
    596: "Cannot continue the execution because the session is in the kill state.",
    6005: "SHUTDOWN is in progress.",
    10928: "Resource ID : 1. The request limit for the database is 60 and has been reached.",
    40197: "The service has encountered an error processing your request. Please try again. Error code 4.",
    40501: "The service is currently busy. Retry the request after 10 seconds.",
    40544: "The database 'jobs' has reached its size quota. Partition or delete data, drop indexes",
    40549: "Session is terminated because you have a long-running transaction.",
    40613: "Database 'jobs' on server 'cris' is not currently available.",
    49918: "Cannot process request. Not enough resources to process request.",
    1105: "Could not allocate space for object 'job' in database 'jobs' because ...",
    9002: "The transaction log for database 'jobs' is full due to 'ACTIVE_TRANSACTION'.",
    208: "Invalid object name 'holdfast.job'.",
    2812: "Could not find stored procedure 'holdfast.tick_v1'.",
    207: "Invalid column name 'colour'.",
    8144: "Procedure or function tick_v1 has too many arguments specified.",
    8145: "@colour is not a parameter for procedure tick_v1.",
    201: "Procedure or function 'tick_v1' expects parameter '@a', which was not supplied.",
    229: "The EXECUTE permission was denied on the object 'tick_v1', database 'jobs'.",
    916: 'The server principal "ann" is not able to access the database "jobs".',
    18456: "Login failed for user '<token-identified principal>'.",
    18452: "Login failed. The login is from an untrusted domain.",
    40532: 'Cannot open server "cris" requested by the login. The login failed.',
    40615: "Cannot open server 'cris'. Client with IP '10.0.0.1' is not allowed to access the server",
    2627: "Violation of UNIQUE KEY constraint 'k'. Cannot insert duplicate key.",
    2601: "Cannot insert duplicate key row in object 'holdfast.job' with unique index 'k'.",
}


def by_number(number: int) -> Fault:
    return Fault("words in another language", number=number)


def meaning(fault: Fault, *, sent: bool = True) -> tuple[type[HoldfastError], str]:
    answer = translated(fault, "here", sent=sent)
    return type(answer), str(answer)


@pytest.mark.parametrize("number", WORDS)
def test_words_mean_what_the_number_means(number: int) -> None:
    kind, _ = meaning(Fault(WORDS[number]))
    assert kind is meaning(by_number(number))[0]
    assert kind is not StoreError or number in {2601, 2627}
    assert is_broken(Fault(WORDS[number])) is is_broken(by_number(number))


@pytest.mark.parametrize("number", [*NOT_DONE, *NOT_DONE_IN_AZURE])
def test_what_was_refused_or_rolled_back_was_not_done(number: int) -> None:
    kind, text = meaning(by_number(number))
    assert kind is StoreUnavailable
    assert "nothing was written" in text


@pytest.mark.parametrize("number", CUT_OFF)
def test_what_was_cut_off_is_unknown_only_if_it_was_sent(number: int) -> None:
    assert meaning(by_number(number))[0] is OutcomeUnknown
    assert meaning(by_number(number), sent=False)[0] is StoreUnavailable
    assert meaning(Fault("text", number=number, sent=False))[0] is StoreUnavailable
    assert is_broken(by_number(number))


def test_no_word_from_the_server_is_unknown_only_if_something_was_sent() -> None:
    assert meaning(Fault("gone", is_lost=True))[0] is OutcomeUnknown
    assert meaning(Fault("gone", is_lost=True), sent=False)[0] is StoreUnavailable
    assert meaning(Fault("gone", is_lost=True, sent=False))[0] is StoreUnavailable
    assert is_broken(Fault("gone", is_lost=True))


def test_words_of_the_driver_are_not_taken_for_the_server_s() -> None:
    assert number_of(Fault("Login failed for user", is_lost=True)) is None


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("Serialization failure", StoreUnavailable),
        ("Invalid authorization specification", ConfigurationError),
        ("Base table or view not found", SchemaMismatch),
        ("Column not found", SchemaMismatch),
        ("General error", StoreError),
    ],
)
def test_in_another_language_the_state_tells(state: str, kind: type[HoldfastError]) -> None:
    assert meaning(Fault("Worte in einer anderen Sprache", state=state))[0] is kind


def test_a_full_store_is_told_as_such() -> None:
    assert {meaning(by_number(number))[0] for number in (1101, 1105, 9002, 40544)} == {StoreFull}


def test_a_missing_object_says_how_to_make_it() -> None:
    assert meaning(by_number(208)) == (
        SchemaMismatch,
        "here: words in another language (208); run: holdfast migrate",
    )


def test_a_database_that_cannot_be_opened_is_not_a_wrong_password() -> None:
    both = Fault('Cannot open database "jobs" requested by the login. Login failed for user.', number=18456)
    assert number_of(both) == 4060
    assert "is the name of the database right?" in meaning(both)[1]


def test_numbers_that_are_not_sql_server_s_are_read_by_their_words() -> None:
    assert number_of(Fault("canceling statement due to lock timeout", number=33557097)) == 1222
    assert number_of(Fault("something of ours", number=50001)) == 50001


def test_deadlocks_and_taken_ids_are_known() -> None:
    assert is_deadlock(by_number(1205))
    assert not is_deadlock(by_number(1222))
    assert not is_broken(by_number(1205))
    error = StoreError("x")
    error.__cause__ = by_number(2627)
    assert is_taken(error)
    error.__cause__ = by_number(547)
    assert not is_taken(error)


def test_only_the_first_line_of_a_message_is_shown() -> None:
    assert meaning(Fault("first\nsecond", number=547)) == (StoreError, "here: first (547)")


def test_what_is_not_a_fault_stays_what_it_is() -> None:
    with pytest.raises(KeyError):
        translated(KeyError("x"), "here", sent=True)
