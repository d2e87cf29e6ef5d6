"""The report of a run, and the evidence that it shows."""

from promask.report.evidence import Evidence, OnMask, gather
from promask.report.html import report_page, write_report

__all__ = ["Evidence", "OnMask", "gather", "report_page", "write_report"]
