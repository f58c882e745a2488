"""Measures Holdfast beside a peer and the raw engine, in one interleaved run: `python -m benchmarks`.

Every measurement runs in a fresh process. Figures are compared within a round, as ratios, because machines
are noisy; a calibration before each measurement shows how noisy. What is measured is told by `cases`.
"""
