"""The `transformers` sampler: models in this process, batched between any two tokens, with a paged KV cache."""
