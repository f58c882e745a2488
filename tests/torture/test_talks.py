"""Following a wire closely enough to lose the answer to what commits, and no other."""

import struct

from holdfast.torture.talks import PostgresTalk, RedisTalk

OPENING = struct.pack("!ii", 8, 196608)
TICK = b"SELECT * FROM holdfast.tick_v1($1)"


def message(letter: bytes, body: bytes) -> bytes:
    return letter + struct.pack("!i", len(body) + 4) + body


def query(text: bytes) -> bytes:
    return message(b"Q", text + b"\0")


def ready(status: bytes = b"I") -> bytes:
    return message(b"Z", status)


def opened() -> PostgresTalk:
    talk = PostgresTalk()
    assert not talk.asks(OPENING)
    assert talk.answers(message(b"R", b"\0" * 4) + ready()) == (message(b"R", b"\0" * 4) + ready(), False)
    return talk


def test_a_commit_is_known_and_a_read_is_not() -> None:
    talk = opened()
    assert talk.asks(query(b"COMMIT;"))
    assert talk.asks(query(TICK))
    assert not talk.asks(query(b"SELECT * FROM holdfast.jobs"))
    assert not talk.asks(query(b"SELECT holdfast.now_v1()"))


def test_a_prepared_statement_is_known_by_its_name_when_it_is_bound() -> None:
    talk = opened()
    assert not talk.asks(message(b"P", b"s1\0" + TICK + b"\0\0\0") + message(b"S", b""))
    bound = message(b"B", b"\0s1\0\0\0\0\0") + message(b"E", b"\0\0\0\0\0") + message(b"S", b"")
    assert not talk.asks(bound[:7]), "half a request"
    assert talk.asks(bound[7:])


def test_the_answer_of_a_doomed_commit_is_lost_and_what_came_before_is_not() -> None:
    talk = opened()
    talk.asks(query(b"SELECT 1"))
    assert talk.asks(query(TICK))
    talk.doom()
    first = message(b"D", b"row") + ready()
    passing, is_lost = talk.answers(first)
    assert (passing, is_lost) == (b"", False), "held until the fate of the next one is known"
    assert talk.answers(message(b"D", b"claimed")) == (b"", False)
    assert talk.answers(ready()) == (b"", True)


def test_an_answer_inside_of_an_open_transaction_is_not_lost() -> None:
    talk = opened()
    talk.asks(query(b"INSERT INTO ledger VALUES (1)"))
    talk.doom()
    answer = message(b"C", b"INSERT") + ready(b"T")
    assert talk.answers(answer) == (answer, False)


def test_the_byte_that_declines_encryption_is_passed_on() -> None:
    talk = PostgresTalk()
    assert not talk.asks(struct.pack("!ii", 8, 80877103))
    assert talk.answers(b"N") == (b"N", False)
    assert not talk.asks(OPENING)
    assert talk.answers(ready()) == (ready(), False)


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def test_redis_loses_the_answer_of_the_script_and_passes_those_before_it() -> None:
    talk = RedisTalk()
    assert not talk.asks(command(b"GET", b"key"))
    assert talk.asks(command(b"EVALSHA", b"sha", b"0"))
    talk.doom()
    assert not talk.asks(command(b"GET", b"key"))
    assert talk.answers(b"$1\r\nv\r\n") == (b"$1\r\nv\r\n", False)
    assert talk.answers(b":1") == (b":1", False), "half an answer"
    assert talk.answers(b"\r\n") == (b"", True)
