"""Generate console/v1/topic_settings.json, the documentation of topic settings for clusters that do not send it
(`python -m broker.settings.topic_docs > console/v1/topic_settings.json`).

A test compares the file with the output of this module.
"""

from __future__ import annotations

import json

from storage.log.config import TOPIC_SETTINGS
from storage.setting import OneOf, Range, RangeOr, Setting


def described(setting: Setting) -> dict[str, object]:
    """Return what the console shows of a setting, and what it needs to check a value while it is typed."""
    rule = setting.validator
    return {
        "name": setting.name,
        "type": setting.type.name,
        "default": setting.default_text,
        "documentation": setting.doc,
        "low": rule.low if isinstance(rule, Range | RangeOr) else None,
        "high": rule.high if isinstance(rule, Range | RangeOr) else None,
        "other": rule.other if isinstance(rule, RangeOr) else None,
        "choices": list(rule.choices) if isinstance(rule, OneOf) else None,
    }


def main() -> None:
    """Print the document."""
    settings = [described(one) for one in TOPIC_SETTINGS.values() if not one.internal]
    print(json.dumps(settings, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
