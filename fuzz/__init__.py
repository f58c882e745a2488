"""Bytes that nobody meant, thrown at everything that reads bytes or text from outside.

Here: one target for each parser, which says what must hold whatever it is given, and `python -m fuzz`, by
which atheris looks for what does not. The suite throws a little at the same targets, and all that was ever
found (`tests/hostile`). Not here: rows of stores, which are damaged one by one in `tests/hostile`.
"""
