"""The reasons why a broker does not answer an inspection."""

from __future__ import annotations


class InspectionError(Exception):
    """The broker cannot answer the inspection."""

    status: int = 400
    """The status of the answer."""


class NothingThereError(InspectionError):
    """The object of the inspection does not exist."""

    status = 404


class ClosedToBrokerError(InspectionError):
    """The broker itself may not read the object."""

    status = 403


class NotHereError(InspectionError):
    """Only another broker has the object."""

    status = 409


class BusyError(InspectionError):
    """The broker has no room for it now, or what it needs does not answer."""

    status = 503
