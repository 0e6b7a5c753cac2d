"""The subcommands of `ottla`, one file each; what only one of them uses stands beside it."""
