"""The verbs: Python, the HTTP API, the command line and the documentation use this one table."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.testing.faults.answer import AnswerFault, apply_answer
from ottla.testing.faults.verb import Verb

VERBS: Mapping[str, Verb] = {verb.name: verb for verb in (Verb("answer", AnswerFault, apply_answer),)}
"""By name."""
