"""What a run notices about itself: whether it learns, and which keys to change if it does not."""
