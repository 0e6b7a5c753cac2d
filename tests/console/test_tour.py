"""The tour in docs/console.md: its pictures are those of `make screenshots`, and small."""

import re

from support.broker import ROOT
from support.doc_scripts import dead_links
from support.screenshots import FOLDER, MAX_BYTES, PICTURES


def test_pictures_exist_and_are_small():
    names = {f"{one.name}.png" for one in PICTURES}
    assert {one.name for one in FOLDER.iterdir()} == names
    assert [one.name for one in FOLDER.iterdir() if one.stat().st_size > MAX_BYTES] == []


def test_the_tour_shows_all_pictures():
    shown = re.findall(r"\(console/([\w-]+\.png)\)", (ROOT / "docs" / "console.md").read_text())
    assert sorted(shown) == sorted(f"{one.name}.png" for one in PICTURES)
    assert dead_links(ROOT / "docs" / "console.md") == []
