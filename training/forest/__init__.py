"""Forests: groups in which some episodes begin in the middle of others, and values by forks.

`places` has the rules that choose where an episode is forked, which may ask `expert_replay` from where it could still
be won, `growing` plays a group by them, and `fork_values` plays forks for the values of turns, which are not trained
on.
"""
