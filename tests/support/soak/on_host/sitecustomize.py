"""Moves a broker's process to its host when Python starts: before there are threads."""

from support.soak.network import enter_own

enter_own()
