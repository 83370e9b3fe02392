"""Measurements of the model: speed and memory, the default recipe, the architecture's options."""
