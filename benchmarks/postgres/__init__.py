"""Measures Holdfast on PostgreSQL beside peers, each in an environment of its own, and a bare loop.

Every side is a program that speaks the same few words (`benchmarks.programs.speaking`), so that all are
driven and measured alike. `cases` tells what is compared.
"""
