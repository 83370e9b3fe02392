"""Evaluation: from the scores of a benchmark to ranks, tests and a verdict, no matter what produced the scores."""
