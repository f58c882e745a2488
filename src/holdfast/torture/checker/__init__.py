"""The independent checker: reads the records of a campaign and what stood in the store, and nothing else.

It knows the promises and none of the code that is to keep them. A module holds the invariants of one subject,
each a function that gives its violations; `judging` runs all, `figures` says how much was really at stake.
`python -m holdfast.torture.checker DIR` judges a campaign's folder.
"""
