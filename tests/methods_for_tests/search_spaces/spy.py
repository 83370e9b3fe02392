"""One setting."""


def grid(size):
    return [{"lists": [1, 2], "none": None}]
