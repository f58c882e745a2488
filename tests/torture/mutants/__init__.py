"""Guards that are taken away, one at a time, in every process of a campaign: the checker must notice each.

`sitecustomize` is found by Python because this folder is on PYTHONPATH; TORTURE_MUTANT names the mutant.
Product code knows nothing of it. `catalogue` lists them; each module has those that change one kind of
thing.
"""
