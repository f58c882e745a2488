"""What is told to the outside: structured log lines, and metrics.

Here: how a log record becomes one line, and how notices become numbers. Not here: what is logged and told.
Each part logs through the standard library under `holdfast.*` and never configures it, and tells notices.
"""
