"""The part of the admin client for features (KIP-584): those that brokers support, and those that are finalized."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from client.admin.base import AdminBase
from client.errors import KafkaError, UnsupportedApiError, error_for
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

_FIRST_API_VERSIONS_WITH_FEATURES: Final = 3
_FIRST_UPDATE_WITH_VALIDATION: Final = 1
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2


class FeatureVersions(NamedTuple):
    """A range of versions, both inclusive."""

    lowest: int
    highest: int


class Features(NamedTuple):
    """Features by name: those that one broker supports, and those that are finalized (`epoch` -1: never any).

    Kafka in ZooKeeper mode, and so Ottla, has neither.
    """

    supported: dict[str, FeatureVersions]
    finalized: dict[str, FeatureVersions]
    epoch: int


class FeatureAdmin(AdminBase):
    """ApiVersions' features, and UpdateFeatures."""

    async def describe_features(self) -> Features:
        """The features. Raises UnsupportedApiError for a broker older than 2.7."""

        async def ask() -> Features:
            connection = await self._cluster.any_connection()
            version = connection.common_version(ApiVersionsRequest)
            if version < _FIRST_API_VERSIONS_WITH_FEATURES:
                raise UnsupportedApiError("the broker is too old to report its features")
            request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
            answer = await connection.call(request, ApiVersionsResponse, version)
            if answer.error_code:
                raise error_for(answer.error_code, context="features")
            return Features(
                {one.name: FeatureVersions(one.min_version, one.max_version) for one in answer.supported_features},
                {
                    one.name: FeatureVersions(one.min_version_level, one.max_version_level)
                    for one in answer.finalized_features
                },
                answer.finalized_features_epoch,
            )

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def update_features(
        self, levels: Mapping[str, int], *, allow_downgrade: bool = False, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Finalize features at these levels (0: delete the feature). Return None or the error for each.

        Raises UnsupportedApiError for `validate_only` if the broker is older than 3.3, or the broker's error for the
        whole request.
        """

        async def ask() -> dict[str, KafkaError | None]:
            connection = await self._cluster.controller()
            version = connection.common_version(UpdateFeaturesRequest)
            request = UpdateFeaturesRequest(timeout_ms=self._request_timeout_ms)
            has_types = version >= _FIRST_UPDATE_WITH_VALIDATION
            if has_types:
                request.validate_only = validate_only
            elif validate_only:
                raise UnsupportedApiError("the broker is too old for validate_only")
            for name, level in levels.items():
                update = FeatureUpdateKey(feature=name, max_version_level=level)
                if has_types:
                    update.upgrade_type = _SAFE_DOWNGRADE if allow_downgrade else _UPGRADE
                else:
                    update.allow_downgrade = allow_downgrade
                request.feature_updates.append(update)
            response = await connection.call(request, UpdateFeaturesResponse, version)
            if response.error_code:
                raise error_for(response.error_code, response.error_message, context="features")
            refused = {
                one.feature: error_for(one.error_code, one.error_message, context=f"feature {one.feature}")
                for one in response.results
                if one.error_code
            }
            return {name: refused.get(name) for name in levels}

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)
