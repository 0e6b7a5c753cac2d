"""Messages larger than the largest record: chunks, and claim checks."""
