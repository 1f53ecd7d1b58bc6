"""The command line of turnwise: commands, progress, pictures and messages for people.

Nothing here is meant to be called by programs; they use `turnwise.envs`, `turnwise.agents`, `turnwise.credit` and
`turnwise.training`. Importing this package imports nothing heavy, so that `turnwise --help` is instant.
"""
