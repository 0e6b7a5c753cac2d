"""The subcommands of `ottla`, one file for each, and the modules that only one of them uses."""
