"""The command line: `holdfast`, one file per noun.

Here: reading arguments, showing answers, exit codes. Not here: any rule about jobs; commands call the
application as users do.
"""
