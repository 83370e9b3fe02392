"""Evaluation: pure functions over a tidy table of scores, whoever produced it."""
