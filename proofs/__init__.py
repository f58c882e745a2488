"""The protocols behind the promises, as models that Spin searches whole.

Here: one `.pml` file a protocol, with switches that weaken its guards, the cases that are run of each, and
how Spin is called. Not here: tests of the code. What a model assumes and shows is said at its beginning.
"""
