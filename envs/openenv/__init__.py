"""OpenEnv servers, played as Gymnasium environments: `turncredit/OpenEnv-v0`."""
