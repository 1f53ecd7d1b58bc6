"""The command line of turnwise: the one place that sees every other folder.

What is here on purpose: commands, live progress, pictures and sentences for people. What is not: anything that a
program would want to call; that lives in `turnwise.envs`, `turnwise.credit`, `turnwise.agents`, `turnwise.training`.
Importing this package imports nothing heavy, so that `turnwise --help` answers at once.
"""
