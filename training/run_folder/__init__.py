"""The folder of a run: checkpoints, metrics, loggers, and how a run goes on."""
