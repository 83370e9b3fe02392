"""The pipeline: Prefect flows over `hopular`, with every trial and result in MLflow."""
