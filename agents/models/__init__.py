"""Models on disk: folders, the hub, tokenizers, LoRA adapters and packaged formats."""
