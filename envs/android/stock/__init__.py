"""Tasks on the stock apps of any device that adb lists: prepared, observed and judged through adb alone."""
