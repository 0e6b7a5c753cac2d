"""The settings of a broker: their tables, and the code that reads, checks, changes and describes them."""
