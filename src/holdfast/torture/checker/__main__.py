"""`python -m holdfast.torture.checker DIR` judges the folder of a campaign.

Exit code 0: nothing is broken, and enough was at stake. 1: something is broken. 2: the folder cannot be read.
3: nothing is broken, but too little happened for that to mean anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from holdfast.torture.checker.case import read_case
from holdfast.torture.checker.judging import Judgement, judge
from holdfast.torture.history import Unreadable

CODES = {"passed": 0, "violated": 1, "vacuous": 3}
WRONG = 2
TOLD = 3
"""How many violations of one invariant are told here; the report has more."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m holdfast.torture.checker DIR\n")
        return WRONG
    try:
        judgement = judge(read_case(Path(arguments[0])))
    except (OSError, Unreadable, msgspec.DecodeError) as error:
        sys.stderr.write(f"{arguments[0]} cannot be judged: {error}\n")
        return WRONG
    sys.stdout.write("\n".join(tell(judgement)) + "\n")
    return CODES[judgement.word]


def tell(judgement: Judgement) -> list[str]:
    """The judgement as lines of text."""
    lines: list[str] = [judgement.word]
    for ruling in judgement.rulings:
        lines.append(f"{ruling.name:<4} {ruling.violations:>6}  {ruling.title}")
        for finding in ruling.findings[:TOLD]:
            lines.append(f"             {finding.sentence}")
            lines += [f"               {exhibit}" for exhibit in finding.evidence]
    lines += [
        f"too few {floor.name}: {floor.reached} of {floor.least}"
        for floor in judgement.floors
        if not floor.is_reached
    ]
    lines.append(msgspec.json.encode(judgement.figures).decode())
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
