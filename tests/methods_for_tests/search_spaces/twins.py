"""Three settings, two of which can share a training."""


def grid(size):
    return [{"n_blocks": 1, "beta": 1.0}, {"n_blocks": 2, "beta": 1.0}, {"n_blocks": 1, "beta": 10.0}]
