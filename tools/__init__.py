"""What an agent acts through: sandboxes, retrieval, browsers, devices. It knows nothing of the rest of turncredit."""
