"""Services: the local servers and the worker, started, watched and stopped together.

They listen on 127.0.0.1, and all that they keep is under `settings.runs_folder()`: services.json (what runs, and
where), logs/, Prefect's home in prefect/, and the tracking store. Nothing here imports Prefect or MLflow: the servers
are processes of their own and are spoken to over HTTP, so that asking for their status is quick.
"""
