"""Java, and what Spark needs around it."""
