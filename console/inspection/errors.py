"""Why a broker does not show what was asked for."""

from __future__ import annotations


class InspectionError(Exception):
    """What was asked for cannot be shown."""

    status: int = 400
    """The status of the answer."""


class NothingThereError(InspectionError):
    """What was asked for does not exist."""

    status = 404


class ClosedToBrokerError(InspectionError):
    """The broker itself may not read it."""

    status = 403


class NotHereError(InspectionError):
    """Only another broker can show it."""

    status = 409


class BusyError(InspectionError):
    """The broker has no room for it now, or what it needs does not answer."""

    status = 503
