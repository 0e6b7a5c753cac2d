"""Groups as the console's pages show them: lag of all groups, its history, and what happened in a group."""
