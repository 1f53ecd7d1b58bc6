"""The command line of turncredit: commands, progress, pictures and messages for people.

Nothing here is meant to be called by programs; they use `turncredit.envs`, `turncredit.agents`, `turncredit.credit` and
`turncredit.training`. Importing this package imports nothing heavy, so that `turncredit --help` is instant.
"""
