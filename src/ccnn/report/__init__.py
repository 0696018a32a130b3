"""One run, or several beside each other, as one HTML page that needs nothing but itself."""

from ccnn.report.comparison import compare
from ccnn.report.single import write

__all__ = ["compare", "write"]
