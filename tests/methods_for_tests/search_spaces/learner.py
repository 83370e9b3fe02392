"""Six settings, the last two of which are hopeless."""


def grid(size):
    return [{"end": end} for end in (1.0, 2.0, 3.0, 4.0, 50.0, 60.0)]
