"""`turncredit list`: environments, rules, objectives, examples and configuration keys as tables."""
