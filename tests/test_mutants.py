"""The lists of `make mutants`: each entry names files that exist."""

import re

import pytest

from support import mutants


def test_every_pattern_of_a_source_matches_a_file():
    packages = set(mutants.sources(mutants.ROOT).values())
    assert packages == set(mutants.SOURCES)


def test_every_name_of_a_test_matches_a_file():
    assert all(mutants.test_files(mutants.ROOT, package) for package in mutants.SOURCES)


def test_every_test_that_is_left_out_exists():
    for name in mutants.LEFT_OUT:
        file, _, function = name.partition("::")
        text = (mutants.ROOT / file).read_text()
        assert re.search(rf"^(async )?def {function.rstrip('[')}\(", text, flags=re.MULTILINE) or not function, name


@pytest.mark.parametrize("pattern", ["storage/gone/*.py", "storage/**/gone*"])
def test_a_pattern_that_matches_nothing_is_an_error(pattern):
    with pytest.raises(ValueError, match=re.escape(repr(pattern))):
        mutants.matching(mutants.ROOT, pattern)
