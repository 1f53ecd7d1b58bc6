"""What can be known to be wrong with a run before any work: rules across keys, keys without effect, remarks."""
