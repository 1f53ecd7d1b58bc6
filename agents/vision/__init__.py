"""Models that see: what images become in their prompts and in their passes."""
