"""What is wrong with a regular expression."""


class InvalidRegexError(Exception):
    """A pattern is not a valid RE2 regular expression, or too large; the message says why."""
