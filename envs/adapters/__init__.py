"""Environments of other packages as Gymnasium environments, each in a module that imports its package late.

textarena        text games against opponents
pettingzoo       turn-based games of PettingZoo, of which the agent plays one seat
reasoning_gym    questions with generated answers, one turn each
"""
