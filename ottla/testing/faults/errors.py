"""What can be wrong with a fault that was requested."""


class FaultError(ValueError):
    """A fault cannot be injected as described. The text names the option and its rule."""


class UnknownFaultError(FaultError):
    """No fault in effect has this id."""

    def __init__(self, fault_id: int) -> None:
        super().__init__(f"no fault in effect has the id {fault_id}: it is over, or never existed")
