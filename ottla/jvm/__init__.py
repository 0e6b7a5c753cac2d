"""Java, and the environment that Spark needs."""
