"""Programs built on the client. They are not installed: run them from a clone."""
