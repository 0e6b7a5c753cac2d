"""Keys and values with schemas, for `ottla consume` and `ottla produce`: options, files, whole records."""
