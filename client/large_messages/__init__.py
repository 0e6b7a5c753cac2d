"""Messages larger than a record may be: chunks, and claim checks."""
