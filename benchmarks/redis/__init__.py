"""Measures Holdfast on Redis beside peers, each in an environment of its own, and a bare loop; and its locks.

Every side is a program that speaks the same few words (`benchmarks.programs.speaking`, and for locks
`programs.locking`), so that all are driven and measured alike. `cases` tells what is compared.
"""
