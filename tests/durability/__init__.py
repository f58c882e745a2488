"""What each store keeps when the machine loses power, the server crashes, or another takes its place.

A program under load says outside of its store what it was told is stored; afterwards that is compared with
what the store still has. `make durability` measures, and prints the table of docs/guarantees.md. Faults of
processes, networks and clocks are not here: see tests/chaos.
"""
