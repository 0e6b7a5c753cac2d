"""The sparse indexes of a segment: from offsets to positions, and from timestamps to offsets."""
