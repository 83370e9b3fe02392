"""Benchmarks: a plan, its units (a method on a split of a dataset), and the functions that run them."""
