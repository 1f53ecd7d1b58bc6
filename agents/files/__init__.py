"""Files of agents: trajectories, JSON records, locks and recordings."""
