"""Three parameters, one of which matters and one of which is not always there."""


def suggest(trial, size):
    settings = {"value": trial.suggest_float("value", -10, 10), "kind": trial.suggest_categorical("kind", ["a", "b"])}
    return settings | ({"deep": trial.suggest_int("deep", 1, 9)} if settings["kind"] == "b" else {})
