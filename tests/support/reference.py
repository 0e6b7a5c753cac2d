"""The location of the data recorded from Apache Kafka 3.9: beside the checkout."""

from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"
