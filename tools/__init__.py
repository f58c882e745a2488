"""Checks of this repository that no ready-made linter makes."""
