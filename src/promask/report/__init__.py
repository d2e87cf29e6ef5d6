"""The report of a run, the evidence that it shows, and the tables of a comparison."""

from promask.report.data import Evidence, OnMask, gather
from promask.report.page import report_page, write_report

__all__ = ["Evidence", "OnMask", "gather", "report_page", "write_report"]
