"""The options of `Admin`: its constructor makes one object of them, which all its parts share."""

from dataclasses import dataclass

from client.options import check_range
from client.wire.cluster_options import ClusterKeywords, ClusterOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(ClusterOptions):
    """The options of `Admin`, which describes them. Names and units are as in `ClusterOptions`."""

    client_id: str = "ottla-admin"
    default_api_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        ClusterOptions.__post_init__(self)
        check_range("default_api_timeout_ms", self.default_api_timeout_ms, 0)


class AdminKeywords(ClusterKeywords, total=False):
    """The fields of `AdminOptions` as keyword arguments."""

    default_api_timeout_ms: int
