"""What is told to the outside: structured log lines.

Here: how a log record becomes one line. Not here: what is logged; each part logs through the standard library
under `holdfast.*` and never configures it.
"""
