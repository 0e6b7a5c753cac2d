"""`ottla topics`."""

from ottla.commands.topics.topics import register as register
