"""Reports: pages, pictures and tables of runs."""
