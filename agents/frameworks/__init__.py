"""Environments in other frameworks, each in a module of its own that imports its framework late.

openenv     a server that OpenEnv's clients, TRL and verifiers speak to
trl         rollouts and tools for TRL's GRPOTrainer
inspect     a task of inspect_ai
"""
