"""MLflow: where runs, models and results are kept. Plain functions with explicit run ids, for threads and processes.

One experiment per dataset holds a run per unit (method and split) with a child run per trial; one more experiment,
`hopular-benchmarks`, holds a summary run per benchmark. Nothing here depends on MLflow's active run.
"""
