"""The documentation of topic settings in the console."""

from pathlib import Path

from broker.settings import topic_docs
from console.v1 import topic_settings


def test_the_file_is_up_to_date(capsys):
    topic_docs.main()
    run = "python -m broker.settings.topic_docs > console/v1/topic_settings.json"
    assert Path(topic_settings.__file__).with_suffix(".json").read_text() == capsys.readouterr().out, f"run: {run}"
