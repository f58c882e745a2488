"""Run by Python at the start of each process: makes it a mutant, if one is named."""

import os

if name := os.environ.get("TORTURE_MUTANT"):
    from tests.torture.mutants.catalogue import MUTANTS

    MUTANTS[name].install()
