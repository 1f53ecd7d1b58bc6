"""Rollouts: episodes, pools of environments, and the stream of complete groups."""
