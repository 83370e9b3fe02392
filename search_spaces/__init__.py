"""Search spaces: one short file per method, named as the method.

A file defines either `grid(size)`, a list of settings to try one by one, or `suggest(trial, size)`, which draws a
setting from an Optuna trial. `size` is "small" (up to 1,000 rows, as the paper's small suite) or "medium". Both return
parameters for the method's `make`. A new file in this folder is the space of a new method, and so is one in a folder
`search_spaces` of a folder named in HOPULAR_PLUGINS (see hopular.methods). A file whose name begins with an underscore
has what several spaces share.
"""

from hopular.settings import plugin_folders

__path__.extend(str(folder / "search_spaces") for folder in plugin_folders())
