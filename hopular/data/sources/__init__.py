"""Where datasets come from: one module per source, each with `load`."""
