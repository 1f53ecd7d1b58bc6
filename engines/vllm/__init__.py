"""The `vllm` sampler: models in vLLM's engine, in this process."""
