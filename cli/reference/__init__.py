"""Reference cases: recorded inputs and results of credit rules and objectives, and what checks ours against them."""
