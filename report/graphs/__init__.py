"""Pictures of what the trajectories of a task make together: what is drawn, where it goes, as SVG and as a page."""
