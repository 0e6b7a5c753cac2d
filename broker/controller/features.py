"""`/feature`, the finalized features of the cluster (KIP-584): a ZooKeeper cluster has none.

The znode exists nevertheless, because brokers look for it: it is enabled from inter.broker.protocol.version 2.7 on, and
disabled before. The controller corrects any other status. Finalized features are kept while the znode is enabled.
"""

from __future__ import annotations

import logging

from broker.controller.context import ControllerContext
from registry.errors import NodeExistsError, NoNodeError, ZnodeFormatError
from registry.interface import Create, Registry, Set
from registry.znodes.controller import FEATURES_DISABLED, FEATURES_ENABLED, FeatureZnode
from replication.inter_broker_protocol import InterBrokerProtocol

logger = logging.getLogger(__name__)


async def set_up_features(registry: Registry, context: ControllerContext, versions: InterBrokerProtocol) -> None:
    """Write what the settings require to the znode. Raises BadVersionError if another controller has been elected."""
    path = FeatureZnode.path()
    status = FEATURES_ENABLED if versions.has_features else FEATURES_DISABLED
    wanted = FeatureZnode(status=status, version=versions.feature_znode_version)
    try:
        data, stat = await registry.get(path)
        known = FeatureZnode.decode(data, path)
    except NoNodeError:
        try:
            await registry.multi([context.epoch_check(), Create(path, wanted.encode())])
        except NodeExistsError:
            await set_up_features(registry, context, versions)
        return
    except ZnodeFormatError as error:
        logger.error("the features are not changed: %s", error)
        return
    if versions.has_features and known.status == FEATURES_ENABLED:
        wanted = wanted.replace(features=known.features)
    if wanted.encode() != data:
        await registry.multi([context.epoch_check(), Set(path, wanted.encode(), stat.version)])
