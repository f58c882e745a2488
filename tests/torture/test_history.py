"""The history: what was written is read, whatever became of the process that wrote it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.torture.history import (
    Call,
    Calm,
    Done,
    Fault,
    Line,
    Recorder,
    Start,
    Unreadable,
    read,
    read_file,
)


def test_a_call_gets_its_number_and_every_record_its_time_and_writer(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "producer-1-1")
    first = recorder.call(Call(verb="enqueue", key="k"))
    second = recorder.call(Call(verb="cancel", job="j"))
    recorder.write(Done(op=first, job="j", created=True))
    recorder.close()

    call, other, done = read(tmp_path)

    assert isinstance(call, Call)
    assert isinstance(other, Call)
    assert (first, second) == (call.op, other.op) == (1, 2)
    assert call.key == "k"
    assert isinstance(done, Done)
    assert done.created is True
    assert {record.who for record in (call, other, done)} == {"producer-1-1"}
    assert 0 < call.at <= other.at <= done.at


def test_the_records_of_all_processes_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    one, two = Recorder(tmp_path, "worker-1-1"), Recorder(tmp_path, "nemesis")
    one.write(Start(job="j", task="t", run=1, token=5))
    two.write(Fault(name="kill", target="worker-1-1", phase="once", facts={"leader": True}))
    one.write(Start(job="k", task="t", run=1, token=6))
    two.write(Calm())

    assert [type(record) for record in read(tmp_path)] == [Start, Fault, Start, Calm]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "worker-1-1")
    recorder.write(Start(job="j", task="t", run=1, token=5))
    path = tmp_path / "history" / "worker-1-1.jsonl"
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole + whole[:length])
        assert len(list(read_file(path))) == 1


def test_a_line_that_is_no_record_is_told_with_its_place(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "worker-1-1")
    recorder.write(Calm())
    path = tmp_path / "history" / "worker-1-1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind":"start","job":"j"}\n')

    with pytest.raises(Unreadable, match=r"worker-1-1\.jsonl:2: .*"):
        list(read_file(path))


def test_lines_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "worker-1-1")

    def write() -> None:
        for token in range(500):
            recorder.write(Start(job="j" * 50, task="t", run=1, token=token))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(read(tmp_path)) == 2000


@pytest.mark.process
def test_what_a_process_wrote_before_it_was_killed_is_there(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from holdfast.torture.history import *\n"
        "recorder = Recorder(Path(sys.argv[1]), 'worker-1-1')\n"
        "for token in range(100): recorder.write(Start(job='j', task='t', run=1, token=token))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, env=dict(os.environ))

    records: list[Line] = read(tmp_path)
    assert killed.returncode < 0
    assert len(records) == 100
