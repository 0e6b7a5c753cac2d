"""Regular expressions decide as RE2 does: listed ones, and random ones."""

import random

import pytest
import re2

from broker.coordinator.consumer.regex.errors import InvalidRegexError
from broker.coordinator.consumer.regex.matcher import MAX_REMEMBERED, Matcher
from support.counts import count
from support.seeds import chosen_seed

TEXTS = (
    *("", "a", "b", "A", "z", "ab", "aa", "aaa", "abab", "ba", "a.b", "a-b", "a_b", "1", "42", "a1", "-", ".", "_"),
    *("orders", "Orders", "ORDERS", "orders-1", "payments.v2", "k", "K", "s", "S", "a\nb", "\n", "a ", "}", "{1}"),
)
LISTED = r"""
orders|payments.*
orders(-\d+)?
(?i)ORDERS
a(?i)B|B
(?i:a)b
(?-i)a
(?i)K|(?i)ſ
(?i)[k-l]|[^K]
.
(?s).
a.b
(?s)a.b
^a$
a^
(?m)a$\n^b
\Aab\z
a\b.\bb
\Ba\B
a\B\w
[^a]
[]a]
[^]a]+
[a-c-z]
[-a]|[b-]
[\d_]+
[[:alpha:]]+
[[:^alpha:]]+
[[:punct:]]
[[:word:][:space:]]*
[[:alpha]
[\pL\d]+
\pL+
\PL+
\p{Lu}+
\p{^Lu}+
\P{^Lu}+
\p{Latin}+
\p{Common}
\p{Greek}
\P{Greek}*
\p{Any}
(?i)\p{Lu}+
(?i)\P{Lu}+
(?i)[[:upper:]]
(?i)[[:^upper:]]
(?i)\W
\d+
\D*
\w\W\w
\s
\S+
\x61\x{62}
\141b
\08|\0
\777
\Qa.b\E
\Qa.b
\Qab\E*
\_|\-|\.
\a|\f|\t|\n|\r|\v
\C
a*
a+b*
a??b
a{2}
a{1,2}
a{2,}
a{0}
a{,2}
a{
a{1,2
{1}
a{01}
(a|b)*
(|a)*b
(a*)*
(a?){3}
((a{2}){2}){2}
(?:ab)+
(?P<name>a)(?<other>b)
()
(?:)
|
a|
a||b
(?U)a+b
a(?i)*
(^)*a
(?)a

(
)
(a
[
[a
[]
[z-a]
[a-\d]
[[:no:]]
[\b]
[\Q]
a**
a*??
a{2}{3}
a{2,1}
a{1001}
(a{40}){40}
*
(*a)
a|*
(?i)*
\
\8
\1
\18
\Z
\G
\E
\h
\é
\x
\xg1
\x{}
\x{110000}
\x{d800}
\p
\pX
\p{
\p{L
\p{Nope}
(?=a)
(?!a)
(?<=a)
(?<n
(?<>a)
(?<a b>a)
(?P=n)
(?P>n)
(?#c)
(?x)a
(?i
(?i-)
(?--i)
"""
PATTERNS = [*LISTED.splitlines()[1:], r"a*\Q\E*", r"a{2}\Q\E{3}", r"a*?\Q\E{0,1}b", r"\Q\E*"]


def re2_matches(pattern):
    """What RE2 says of each text; None if it refuses the pattern."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    return {text for text in TEXTS if compiled.fullmatch(text)}


def our_matches(pattern):
    try:
        matcher = Matcher(pattern)
    except InvalidRegexError:
        return None
    assert matcher.matching(TEXTS) == matcher.matching(TEXTS)  # with what it remembers
    return set(matcher.matching(TEXTS))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_listed_patterns(pattern):
    expected = re2_matches(pattern)
    if pattern in (r"\x{d800}",):  # RE2 takes half a pair of UTF-16 for a character
        expected = None
    assert our_matches(pattern) == expected


@pytest.mark.counted
def test_random_patterns():
    choose = random.Random(chosen_seed(848))
    parts = [
        *("a", "b", "ab", "A", "1", "-", ".", "^", "$", "|", "(", ")", "(?:", "(?i)", "(?i:", "(?s)", "(?-i:", "(?m)"),
        *("*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "*?", "[ab]", "[^a]", "[a-z]", "[[:alpha:]]", "[", "]", "\\"),
        *(r"\d", r"\w", r"\W", r"\b", r"\B", r"\A", r"\z", r"\.", r"\pL", r"\PN", r"\Q", r"\E", "{", "}", ","),
    ]
    refused = 0
    for _ in range(count(3_000, 20_000)):
        pattern = "".join(choose.choice(parts) for _ in range(choose.randint(1, 9)))
        expected = re2_matches(pattern)
        refused += expected is None
        found = our_matches(pattern)
        if found is None and "(?" in pattern and any(flags in pattern for flags in ("(?i)", "(?s)", "(?m)")):
            continue  # two operators with flags between them: RE2 makes one of them
        assert found == expected, pattern
    assert refused


def test_a_large_group_of_names():
    names = [f"topic-{number:04d}" for number in range(900)]
    matcher = Matcher("|".join(names[::3]))
    assert matcher.matching(names) == set(names[::3])


@pytest.mark.parametrize("pattern", ["(a*)*(a*)*b", "(a|a)*b", "(a?){500}a{500}", "(.*)(.*)(.*)(.*)(.*)[b-z]"])
def test_what_takes_other_engines_forever(pattern):
    assert Matcher(pattern).matching(["a" * 249]) == set()


def test_what_is_remembered_and_the_work_are_limited():
    """The automaton of this pattern has no two equal states: it must know where each `a` was."""
    matcher = Matcher("(a|b)*a(a|b){200}")
    choose = random.Random(1)
    texts = ["".join(choose.choice("ab") for _ in range(249)) for _ in range(20)]
    assert matcher.matching(texts) == {text for text in texts if text[-201] == "a"}
    states = matcher._states.values()
    remembered = sum(len(state.instructions) + sum(map(len, state.reached.values())) + 1 for state in states)
    remembered += sum(map(len, matcher._takers.values()))
    assert 0 < remembered < 1.1 * MAX_REMEMBERED
    more = ["".join(choose.choice("ab") for _ in range(249)) for _ in range(500)]
    with pytest.raises(InvalidRegexError, match="too much time to match the names of all topics"):
        matcher.matching(more)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(" * 101 + ")" * 101, "more than 100 groups in each other"),
        ("(a{1000}b{1000})(a{1000}b{1000})(a{1000}b{1000})(a{1000}b{1000})(a{1000}b{1000})(a{1000}", "missing"),
        ("(a{1000}b{1000}){1}" * 6, "pattern too large"),
        ("\ud800", "a surrogate is not a character"),
    ],
)
def test_limits(pattern, message):
    with pytest.raises(InvalidRegexError, match=message):
        Matcher(pattern)


def test_deep_and_long_patterns_that_are_accepted():
    assert Matcher("(" * 100 + "a" + ")*" * 100).matches("aa")
    assert Matcher("(){1000}" * 1250).matches("")
    assert Matcher(r"(?i)\Q\E" * 1000 + "a").matches("A")
