"""Where a trajectory that is trained on comes from."""

POLICY = 0
"""Played by the policy for this update."""

STORED = 1
"""Played by the policy earlier, and stored."""

TEACHER = 2
"""From another model, or a reference answer."""
