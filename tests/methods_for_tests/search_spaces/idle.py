"""Ten parameters."""


def suggest(trial, size):
    settings = {f"p{i}": trial.suggest_float(f"p{i}", 1e-3, 1, log=True) for i in range(6)}
    settings |= {f"n{i}": trial.suggest_int(f"n{i}", 1, 20) for i in range(3)}
    return settings | {"kind": trial.suggest_categorical("kind", ["a", "b", "c"])}
