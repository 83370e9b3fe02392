"""Audit: what is wrong or odd with a dataset and its splits, found from the data alone."""

from hopular.data.audit.finding import Finding
from hopular.data.audit.run import audit

__all__ = ["Finding", "audit"]
