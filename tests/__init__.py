"""Tests, by part: a folder here for each folder of the package."""
