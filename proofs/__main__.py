"""`make proofs`: searches every model, and prints how many states there were."""

from __future__ import annotations

import sys
import time

from proofs.cases import CASES, Case
from proofs.spin import Found, SpinFailed, search


def main() -> int:
    wrong = 0
    for case in CASES:
        began = time.monotonic()
        try:
            found = search(case)
        except SpinFailed as error:
            print(f"{case.model}: {error}", file=sys.stderr)
            return 1
        wrong += (found.violated is None) is not case.must_hold
        print(f"{case.model:9} {_word(case, found):22} {found.states:>10,} states  {case.says}", end="")
        print(f"  ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"{len(CASES)} searches, {wrong} not as they must be.")
    return min(wrong, 1)


def _word(case: Case, found: Found) -> str:
    if found.violated is None:
        return "holds" if case.must_hold else "HOLDS, MUST NOT"
    return "refuted" if not case.must_hold else f"VIOLATED: {found.violated}"


if __name__ == "__main__":
    sys.exit(main())
