"""From the bytes of keys and values to what a page shows: bounded in size, depth and time."""
