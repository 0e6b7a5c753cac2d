"""`ottla perf`: measure the throughput and latency of producing and consuming with Ottla's client."""

from typing import Annotated

import typer

from client.errors import KafkaError
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Producer, Reader
from ottla.command_line.completion import complete_topics
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, parse_size
from ottla.command_line.session import explain_refusal, find_partitions, run
from ottla.commands.perf_run import ConsumeRun, ProduceRun

perf = typer.Typer(help="Measure throughput and latency.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, without a live rate.")]
Topic = Annotated[str, typer.Argument(help="The topic.", autocompletion=complete_topics)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(perf, name="perf")


@perf.command(epilog="Example:  ottla perf produce load --records 1000000 --size 100 --compression lz4")
def produce(
    topic: Topic,
    records: Annotated[int, typer.Option("--records", "-n", min=1, help="How many records.")] = 100_000,
    size: Annotated[str, typer.Option("--size", "-s", help="Size of each value: 100, 1k.")] = "100",
    rate: Annotated[float, typer.Option("--rate", help="Records per second; 0: no limit.")] = 0,
    acks: Annotated[str, typer.Option("--acks", "-a", help="Acknowledgements: all, 1 or 0.")] = "all",
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="Codec: none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    linger_ms: Annotated[float, typer.Option("--linger-ms", help="How long a batch waits for more records.")] = 5,
    batch_size: Annotated[str, typer.Option("--batch-size", help="Maximum size of a batch.")] = "64k",
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only to this partition.")] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Send records of random printable bytes; the latency is the time from sending to acknowledgement."""
    value_size = parse_size(size, "--size")
    batch_bytes = parse_size(batch_size, "--batch-size")
    if rate < 0:
        raise CommandError(f"--rate {rate:g} must not be negative")

    async def main() -> None:
        async with Producer(
            bootstrap_servers=bootstrap_server,
            client_id="ottla-perf",
            acks=acks,
            compression_type=compression,
            linger_ms=linger_ms,
            batch_size=batch_bytes,
            max_request_size=max(1024 * 1024, 2 * value_size),
        ) as producer:
            await producer.partitions_for(topic)
            measured = ProduceRun(producer, topic, partition, records, value_size, rate, live=not as_json)
            try:
                await measured.run()
            except KafkaError as error:
                raise CommandError(await explain_refusal(error, topic, bootstrap_server)) from error
        measured.result.show(as_json)

    run(main())


@perf.command(epilog="Example:  ottla perf consume load --records 1000000")
def consume(
    topic: Topic,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="How many records. Default: all.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition. Repeatable.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Count batches by their headers, without decoding.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", help="Stop after this many seconds without records.")] = 10,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Read records from the beginning; the latency is the time from one Fetch's records to the next."""

    async def main() -> None:
        async with Reader(bootstrap_servers=bootstrap_server, client_id="ottla-perf") as reader:
            numbers = await find_partitions(reader, topic, partition, bootstrap_server)
            names = [TopicPartition(topic, number) for number in numbers]
            measured = ConsumeRun(reader, names, records, raw=raw, timeout_s=timeout, live=not as_json)
            await measured.run()
        measured.result.show(as_json)

    run(main())
