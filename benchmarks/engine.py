"""A database server that all sides share, and the CPU time of processes."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Server:
    """A server that may be filled and emptied; `pid` is that of its first process, if it is ours."""

    url: str
    pid: int | None = None
    facts: str = ""

    def cpu(self) -> float:
        """CPU seconds of all its processes so far; 0 if that cannot be seen."""
        return 0.0 if self.pid is None else tree_cpu(self.pid)


def tree_cpu(pid: int) -> float:
    """CPU seconds of a process and its children, also of those that it has waited for; one level deep."""
    children: list[int] = []
    own = 0.0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(entry.parent.name)
        if number == pid:
            own = sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            children.append(sum(map(int, fields[11:13])))
    return (own + sum(children)) / os.sysconf("SC_CLK_TCK")
