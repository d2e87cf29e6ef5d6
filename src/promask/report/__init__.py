"""The report of a run, and the measurements that it shows."""

from promask.report.measurements import OnMask, RunMeasurements, measure_run
from promask.report.page import report_page, write_report

__all__ = ["OnMask", "RunMeasurements", "measure_run", "report_page", "write_report"]
