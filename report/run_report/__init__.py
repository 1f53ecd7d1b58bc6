"""The report of a run as one HTML page: its data, its page, and the server of a run that continues."""
