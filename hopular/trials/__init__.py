"""Hyperparameter search: one Optuna study per dataset, split and method, which survives crashes and shares its budget.

`run.search` is the way in. A trial belongs to a slot of the budget; whoever leases a slot fits it in a worker process
and stores its record. Finished slots stay finished, leases of the dead are taken over, so that a search can be killed
at any moment and shared by any number of processes.
"""
