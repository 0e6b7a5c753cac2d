"""A partition on one broker: leader or follower, high watermark, delayed requests."""
