"""Names of the environment variables that the commands read."""

from typing import Final

BOOTSTRAP_SERVER: Final = "OTTLA_BOOTSTRAP_SERVER"
"""The bootstrap servers of commands that have none on the command line."""

PROFILE: Final = "OTTLA_PROFILE"
"""The profile to use instead of the current one."""

CONFIG: Final = "OTTLA_CONFIG"
"""The file of the profiles."""

COMMAND_CONFIG: Final = "OTTLA_COMMAND_CONFIG"
"""The properties file of commands without --command-config."""

ZOOKEEPER_CONFIG: Final = "OTTLA_ZOOKEEPER_CONFIG"
"""The properties file of commands that open ZooKeeper themselves, without --zookeeper-config."""
