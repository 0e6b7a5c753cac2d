"""Settings of creating, changing and deleting topics."""

from __future__ import annotations

from storage.setting import AT_LEAST_1, BOOLEAN, CLASS, HIGH, INT, LOW, MEDIUM, READ_ONLY, Setting, table

# fmt: off
TOPIC_ADMIN_SETTINGS: dict[str, Setting] = table((
    Setting("alter.config.policy.class.name", CLASS, None, None,
            LOW, READ_ONLY, "Class that judges changes of settings."),
    Setting("auto.create.topics.enable", BOOLEAN, "true", None,
            HIGH, READ_ONLY, "Whether a topic that is asked for is created.", acts=True),
    Setting("create.topic.policy.class.name", CLASS, None, None,
            LOW, READ_ONLY, "Class that judges new topics."),
    Setting("delete.topic.enable", BOOLEAN, "true", None,
            HIGH, READ_ONLY, "Whether topics can be deleted.", acts=True),
    Setting("num.partitions", INT, "1", AT_LEAST_1,
            MEDIUM, READ_ONLY, "Partitions of topics that are created without a number.", acts=True),
))
# fmt: on
