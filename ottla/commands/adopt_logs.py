"""`ottla adopt-logs`: register the topics of log directories that Kafka wrote in the embedded registry."""

import asyncio
import random
import time
from pathlib import Path
from typing import Annotated

import typer

from broker.log_adoption import adopt_logs as adopt
from ottla.command_line.options import AsJson
from ottla.command_line.output import print_json, print_table

EPILOG = "Example:  ottla verify-log data;  ottla adopt-logs data;  ottla broker --set log.dirs=data"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("adopt-logs", epilog=EPILOG)(adopt_logs)


def adopt_logs(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="All log directories of the broker, in the order of log.dirs."),
    ],
    as_json: AsJson = False,
) -> None:
    """Register the topics in the log directories of a stopped broker. For a cluster of one broker.

    The directories do not contain the topics' settings: compacted topics stay compacted, and the others keep their
    records without a limit.
    """
    adopted = asyncio.run(adopt(directories, lambda: time.time_ns() // 1_000_000, random.Random()))
    if as_json:
        print_json(
            [
                {
                    "topic": each.topic.name,
                    "partitions": each.topic.partition_count,
                    "empty": each.empty,
                    "new": each.new,
                    "settings": each.topic.settings,
                }
                for each in adopted
            ]
        )
        return
    rows = [
        (
            each.topic.name,
            each.topic.partition_count,
            each.empty,
            " ".join(f"{name}={value}" for name, value in each.topic.settings.items()) if each.new else "known already",
        )
        for each in adopted
    ]
    print_table(("topic", "partitions", "without a log", "settings"), rows)
