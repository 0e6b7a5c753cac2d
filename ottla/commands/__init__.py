"""The subcommands of `ottla`, one file each."""
