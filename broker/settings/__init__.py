"""The settings of a broker: their tables, and how they are read, checked, changed and described."""
