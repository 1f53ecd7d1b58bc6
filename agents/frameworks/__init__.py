"""Environments in other frameworks, each in a module of its own that imports its framework late.

openenv     a server that OpenEnv's clients, TRL and verifiers speak to
mcp_server  a server of the Model Context Protocol, over standard input and output or HTTP
trl         rollouts and tools for TRL's GRPOTrainer
inspect     a task of inspect_ai
"""
