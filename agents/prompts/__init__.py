"""Prompts: templates, chat templates, the memory of an episode, and how an answer is parsed."""
