"""One setting of each kind, or those that HOPULAR_TEST_ACTS names."""

import os

ACTS = "nothing segfault invalid raise refuse memory_error hang exit nan nothing"


def grid(size):
    return [{"act": act} for act in os.environ.get("HOPULAR_TEST_ACTS", ACTS).split()]
