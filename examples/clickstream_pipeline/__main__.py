"""`python -m examples.clickstream_pipeline --help`; `make demo` is the same."""

import argparse
import asyncio
import sys
from datetime import datetime
from pathlib import Path

from rich.console import Console

from examples.clickstream_pipeline.demo import Demo, Settings
from ottla.command_line.failure import CommandError
from ottla.command_line.session import on_stop_signals, run
from ottla.errors import KafkaError


def settings() -> Settings:
    """What the command line says. Ends the process with 2 where that is wrong."""
    parser = argparse.ArgumentParser("clickstream_pipeline", description="Clicks through Kafka topics and Spark.")
    parser.add_argument("--output", type=Path, help="a folder that is not there yet; without: demo-output/<time>")
    parser.add_argument("--duration", type=float, default=60, metavar="S", help="how long clicks are sent")
    parser.add_argument("--rate", type=float, default=1000, metavar="N", help="clicks per second")
    parser.add_argument("--speed", type=float, default=20, metavar="X", help="seconds of event time in a second")
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="of everything random")
    parser.add_argument("--brokers", type=int, default=3, metavar="N")
    parser.add_argument("--partitions", type=int, default=6, metavar="N", help="of the topic clicks")
    parser.add_argument("--master", default="local[2]", help="a Spark to run on")
    parser.add_argument("--trigger", type=float, default=2, metavar="S", help="between batches")
    found = parser.parse_args()
    for name in ("duration", "rate", "speed", "brokers", "partitions", "trigger"):
        if not getattr(found, name) > 0:
            parser.error(f"--{name} {getattr(found, name)}: must be above 0")
    output = found.output or Path("demo-output") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
    if output.exists() and any(output.iterdir()):
        parser.error(f"--output {output}: must not be there yet, or be empty")
    output.mkdir(parents=True, exist_ok=True)
    return Settings(
        output=output.resolve(),
        duration_s=found.duration,
        rate=found.rate,
        speed=found.speed,
        seed=found.seed,
        brokers=found.brokers,
        partitions=found.partitions,
        master=found.master,
        trigger_s=found.trigger,
    )


async def main(demo: Demo, console: Console) -> int:
    """Run the demo until it is done, fails, or SIGINT or SIGTERM comes; the exit code. All that it started is ended."""
    stopping = asyncio.Event()

    def signalled() -> None:
        if stopping.is_set():
            demo.kill()
        stopping.set()

    on_stop_signals(signalled)
    running = asyncio.create_task(demo.run())
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            console.print("stopping the job, the brokers, ZooKeeper; once more does not wait for them")
            running.cancel()
            await asyncio.wait({running})
            return 130
        return 0 if running.result() else 1
    except (CommandError, KafkaError) as error:
        console.print(f"clickstream_pipeline: {error}", style="red", highlight=False, soft_wrap=True)
        return 1
    finally:
        stopping.set()
        await demo.stop()


if __name__ == "__main__":
    screen = Console()
    sys.exit(run(main(Demo(settings(), screen), screen)))
