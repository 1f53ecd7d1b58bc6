"""OpenEnv servers, played as Gymnasium environments: `turnwise/OpenEnv-v0`."""
