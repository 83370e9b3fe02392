"""The servers of `hopular up`: Prefect, MLflow and a worker, started, supervised and stopped together.

They listen on 127.0.0.1, and all that they keep is under `settings.runs_folder()`: services.json (what runs, and
where), logs/, Prefect's home in prefect/, and the tracking store. Nothing here imports Prefect or MLflow: the servers
are processes of their own and are reached over HTTP, so that asking for their status is quick.
"""
