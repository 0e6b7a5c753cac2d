"""Sets of characters: ranges, Unicode's categories and scripts, negation, and matching that ignores case.

A set answers for one character at a time; `matcher` remembers the answers. Topic names are ASCII, so a script needs to
be right for ASCII only: all letters are Latin, all other characters are Common.
"""

from __future__ import annotations

import unicodedata
from typing import Final, NamedTuple

_POSIX: Final = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\x00\x7f",
    "blank": "\t\t  ",
    "cntrl": "\x00\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZaz__",
    "xdigit": "09AFaf",
}
"""The classes of `[[:name:]]`: the ends of their ranges, in pairs."""
_PERL: Final = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZaz__"}

_CATEGORY_NAMES: Final = """
C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
"""
_SCRIPT_NAMES: Final = """
Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki
Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee
Chorasmian Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan
Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi
Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited
Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi
Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani
Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui
Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari
New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian
Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong
Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian
Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le
Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai
Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square
"""
_CATEGORIES: Final = frozenset(_CATEGORY_NAMES.split())
_SCRIPTS: Final = frozenset(_SCRIPT_NAMES.split())

_ALSO: Final = {"k": "\u212a", "K": "\u212a", "s": "\u017f", "S": "\u017f"}
"""Characters outside ASCII that differ from ASCII letters in case only: the sign of Kelvin and the long s."""


class CharSet(NamedTuple):
    """A set of characters.

    ends: the first and last characters of ranges, in pairs. unicode: names of Unicode's categories and scripts.
    members: other sets that are contained. ignore_case: characters that differ in case only count as contained.
    negated: the set contains what it otherwise would not.
    """

    ends: str = ""
    unicode: tuple[str, ...] = ()
    members: tuple[CharSet, ...] = ()
    ignore_case: bool = False
    negated: bool = False

    def contains(self, char: str) -> bool:
        """Whether a character is in the set."""
        found = any(map(self._has, _cases(char))) if self.ignore_case else self._has(char)
        return (found or any(member.contains(char) for member in self.members)) != self.negated

    def _has(self, char: str) -> bool:
        ends = self.ends
        if any(ends[i] <= char <= ends[i + 1] for i in range(0, len(ends), 2)):
            return True
        return any(_is_in_unicode_set(char, name) for name in self.unicode)


def posix_set(name: str, *, negated: bool, ignore_case: bool) -> CharSet | None:
    """Return the class that `[:name:]` is in brackets; None for an unknown name."""
    ends = _POSIX.get(name)
    return None if ends is None else CharSet(ends, ignore_case=ignore_case, negated=negated)


def perl_set(letter: str, *, ignore_case: bool) -> CharSet | None:
    """Return the class of an escape: "d" for digits, "D" for all others; None if the letter has none."""
    ends = _PERL.get(letter.lower())
    return None if ends is None else CharSet(ends, ignore_case=ignore_case, negated=letter.isupper())


def unicode_set(name: str, *, negated: bool, ignore_case: bool) -> CharSet | None:
    """Return the class of a category, a script or "Any"; None for an unknown name."""
    if name != "Any" and name not in _CATEGORIES and name not in _SCRIPTS:
        return None
    return CharSet(unicode=(name,), ignore_case=ignore_case, negated=negated)


def _is_in_unicode_set(char: str, name: str) -> bool:
    if name in _CATEGORIES:
        return unicodedata.category(char).startswith(name)
    if name in ("Latin", "Common"):
        return char.isascii() and char.isalpha() == (name == "Latin")
    return name == "Any"


def _cases(char: str) -> str:
    return char + char.lower() + char.upper() + _ALSO.get(char, "")
