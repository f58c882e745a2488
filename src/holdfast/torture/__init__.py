"""The torture campaign: real processes against a real store, faults, and a judge who knows neither.

The processes write down what they did and saw (`history`), outside the system that is tested; what stands
in the store at the end is the `dump`. `checker` reads both and nothing
else, and `report` shows what it found.
"""
