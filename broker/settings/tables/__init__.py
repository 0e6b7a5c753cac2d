"""The tables of broker settings, one module for each subject."""
