"""The sparse indexes of a segment: from offsets and from timestamps to positions."""
