"""max_whisper/openai/normalizers/basic.py - text of any language without case, brackets and punctuation."""
from __future__ import annotations

import re
import unicodedata

# Letters that Unicode does not take apart into a letter and a mark.
ADDITIONAL_DIACRITICS = dict(zip("œŒøØæÆßẞđĐðÐþÞłŁ", "oe OE o O ae AE ss SS d D d D th th l L".split()))

# A character as readers see it, once marks are gone: a syllable of Hangul, in parts or not, or anything with joiners.
_LEAD, _VOWEL, _TAIL = "[\u1100-\u115f\ua960-\ua97c]", "[\u1160-\u11a7\ud7b0-\ud7c6]", "[\u11a8-\u11ff\ud7cb-\ud7fb]"
_OPEN = "[" + "".join(map(chr, range(0xAC00, 0xD7A4, 28))) + "]"   # syllables without a tail
_CHARACTER = re.compile(f"\r\n|[\0-\x1f\x7f-\x9f]|(?:{_LEAD}*(?:{_OPEN}{_VOWEL}*|{_VOWEL}+|[\uac00-\ud7a3]){_TAIL}*"
                        f"|{_LEAD}+|{_TAIL}+|.)[\u200c\u200d]*", re.DOTALL)


def _without_brackets(s: str) -> str:
    s = re.sub(r"[<\[][^>\]]*[>\]]", "", s)
    return re.sub(r"\(([^)]+?)\)", "", s)


def remove_symbols_and_diacritics(s: str, keep: str = "") -> str:
    """Letters lose their accents; marks, symbols and punctuation become spaces, except those to keep."""
    def plain(c: str) -> str:
        if c in keep:
            return c
        if c in ADDITIONAL_DIACRITICS:
            return ADDITIONAL_DIACRITICS[c]
        category = unicodedata.category(c)
        return "" if category == "Mn" else " " if category[0] in "MSP" else c
    return "".join(map(plain, unicodedata.normalize("NFKD", s)))


def remove_symbols(s: str) -> str:
    """Marks, symbols and punctuation become spaces; accents that are part of a letter stay."""
    return "".join(" " if unicodedata.category(c)[0] in "MSP" else c for c in unicodedata.normalize("NFKC", s))


class BasicTextNormalizer:
    """Lower case, without what stands in brackets and without punctuation; split_letters: a space between letters."""

    def __init__(self, remove_diacritics: bool = False, split_letters: bool = False) -> None:
        self.clean = remove_symbols_and_diacritics if remove_diacritics else remove_symbols
        self.split_letters = split_letters

    def __call__(self, s: str) -> str:
        s = self.clean(_without_brackets(s.lower())).lower()
        if self.split_letters:
            s = " ".join(_CHARACTER.findall(s))
        return re.sub(r"\s+", " ", s)
