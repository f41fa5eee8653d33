"""Benchmarks: every figure is a ratio or a bound, measured in one run on one machine."""
