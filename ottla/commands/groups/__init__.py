"""`ottla groups`."""

from ottla.commands.groups.groups import register as register
