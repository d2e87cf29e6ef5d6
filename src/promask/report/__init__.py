"""What people look at: figures, and the report of a run."""

from promask.report.html import write_report

__all__ = ["write_report"]
