"""max_whisper/openai/normalizers/english.py - English text with one way to write numbers, contractions, spellings.

The rules are those of the Whisper paper's appendix C and of openai-whisper, whose results these are, odd ones included:
tests compare them with its own. english.json (British to American spellings, after tysto.com's list) is
openai-whisper's, under its MIT licence: see LICENSE here.
"""
from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Union

from .basic import _without_brackets, remove_symbols_and_diacritics

Number = Union[int, str, None]   # a string while digits are put one after another: "007", "3."

_ONES = {word: value for value, word in enumerate(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen".split(), 1)}
_TENS = {word: 10 * value for value, word in enumerate(
    "twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_MULTIPLIERS = {"hundred": 100, **{word: 1000 ** power for power, word in enumerate(
    "thousand million billion trillion quadrillion quintillion sextillion septillion octillion nonillion "
    "decillion".split(), 1)}}
_ZEROS = ("o", "oh", "zero")
_IRREGULAR = {"zeroth": (0, "th"), "first": (1, "st"), "second": (2, "nd"), "third": (3, "rd"), "fifth": (5, "th"),
              "twelfth": (12, "th")}
_SIGNS = {"minus": "-", "negative": "-", "plus": "+", "positive": "+"}
_CURRENCIES = {"pound": "£", "pounds": "£", "euro": "€", "euros": "€", "dollar": "$", "dollars": "$", "cent": "¢",
               "cents": "¢"}
_PREFIXES = frozenset("-+£€$¢")
_DIGITS = re.compile(r"^\d+(\.\d+)?$")


def _with_endings() -> dict[str, tuple[str, int, str]]:
    """Plurals and ordinals: "sixes", "thirties", "millionth": what they count, how many, and the ending."""
    made: dict[str, tuple[str, int, str]] = {}
    for word, value in _ONES.items():
        made["sixes" if word == "six" else word + "s"] = ("one", value, "s")
        if value > 3 and value not in (5, 12):
            made[word + ("h" if word.endswith("t") else "th")] = ("one", value, "th")
    for word, (value, ending) in _IRREGULAR.items():
        made[word] = ("one", value, ending)
    for word, value in _TENS.items():
        made[word[:-1] + "ies"] = ("ten", value, "s")
        made[word[:-1] + "ieth"] = ("ten", value, "th")
    for word, value in _MULTIPLIERS.items():
        made[word + "s"] = ("multiplier", value, "s")
        made[word + "th"] = ("multiplier", value, "th")
    return made


# Every word that can be part of a number: what it is, its value, and the ending after which the number is over.
_LEXICON: dict[str, tuple[str, int, str]] = {
    **{word: ("zero", 0, "") for word in _ZEROS},
    **{word: ("one", value, "") for word, value in _ONES.items()},
    **{word: ("ten", value, "") for word, value in _TENS.items()},
    **{word: ("multiplier", value, "") for word, value in _MULTIPLIERS.items()},
    **_with_endings(),
    **{word: ("sign", 0, "") for word in _SIGNS},
    **{word: ("currency", 0, "") for word in _CURRENCIES},
    **{word: ("percent", 0, "") for word in ("per", "percent")},
    **{word: (word if word in ("and", "point") else "repeat", 0, "") for word in ("and", "point", "double", "triple")},
}


def _fraction(text: Number) -> Fraction | None:
    try:
        return Fraction(text or "")
    except ValueError:
        return None


def _add_ones(value: Number, ones: int, before: str | None) -> int | str:
    """"twenty" "five": 25; "five" "twenty five": 525; "nine" "one" "one": 911."""
    if value is None:
        return ones
    if isinstance(value, str) or before in _ONES:
        digits = str(value)
        return digits[:-1] + str(ones) if before in _TENS and ones < 10 else digits + str(ones)
    return value + ones if value % (10 if ones < 10 else 100) == 0 else f"{value}{ones}"


def _add_tens(value: Number, tens: int) -> int | str:
    if value is None:
        return tens
    return value + tens if isinstance(value, int) and value % 100 == 0 else f"{value}{tens}"


class _Reader:
    """Reads words one by one and gives what they come to: numbers in digits, everything else as it is."""

    def __init__(self) -> None:
        self.prefix = ""
        self.value: Number = None

    def out(self, text: int | str) -> str:
        """A finished word, with the sign or currency that waited for it."""
        made = self.prefix + str(text)
        self.prefix, self.value = "", None
        return made

    def flush(self) -> Iterator[str]:
        if self.value is not None:
            yield self.out(self.value)

    def digits(self, word: str) -> Iterator[str]:
        bare = word[1:] if word[0] in _PREFIXES else word
        if isinstance(self.value, str) and self.value.endswith("."):
            self.value += word   # decimals, parts of an address
            return
        yield from self.flush()
        if bare != word:
            self.prefix = word[0]
        number = Fraction(bare)
        self.value = number.numerator if number.denominator == 1 else bare

    def multiply(self, multiplier: int) -> Iterator[str]:
        if self.value is None:
            self.value = multiplier
        elif isinstance(self.value, int):   # "two thousand five" "hundred": only what follows the thousands
            rest = self.value % 1000
            self.value += rest * multiplier - rest
        else:
            number = _fraction(self.value)
            if number is not None and (number * multiplier).denominator == 1:
                self.value = (number * multiplier).numerator
            else:
                yield from self.flush()
                self.value = multiplier

    def count(self, kind: str, number: int, ending: str, before: str | None) -> Iterator[str]:
        """A word that is a number by itself; with an ending the number is over."""
        if kind == "zero":
            self.value = str(self.value or "") + "0"
        elif kind == "one":
            self.value = _add_ones(self.value, number, before)
        elif kind == "ten":
            self.value = _add_tens(self.value, number)
        else:
            yield from self.multiply(number)
        if ending:
            yield self.out(f"{self.value}{ending}")

    def currency(self, word: str) -> Iterator[str]:
        if self.value is None:
            yield self.out(word)
        else:
            self.prefix = _CURRENCIES[word]
            yield from self.flush()

    def join(self, kind: str, word: str, before: str | None, after: str | None) -> Iterator[str]:
        """Words that mean something only between the parts of a number."""
        if kind == "sign" and _may_be_number(after):
            yield from self.flush()
            self.prefix = _SIGNS[word]
        elif kind == "and" and _may_be_number(after) and before in _MULTIPLIERS:
            return
        elif kind == "point" and _may_be_number(after):
            if after in _ONES or after in _TENS or after in _ZEROS or _is_digits(after):
                self.value = str(self.value or "") + "."
        else:
            yield from self.flush()
            yield self.out(word)


def _is_digits(word: str | None) -> bool:
    return word is not None and _DIGITS.match(word) is not None


def _may_be_number(word: str | None) -> bool:
    return word in _LEXICON or _is_digits(word)


class EnglishNumberNormalizer:
    """Numbers that are spelled out, in digits: "two thousandth" 2000th, "$20 million" $20000000, "one oh one" 101,
    "two dollars and seventy cents" $2.70. "one" and "ones" stay words."""

    def process_words(self, words: list[str]) -> Iterator[str]:
        """The words, numbers among them in digits."""
        reader = _Reader()
        i = 0
        while i < len(words):
            word, before = words[i], words[i - 1] if i else None
            after = words[i + 1] if i + 1 < len(words) else None
            kind, number, ending = _LEXICON.get(word, ("word", 0, ""))
            i += 1
            if _is_digits(word[1:] if word[0] in _PREFIXES else word):
                yield from reader.digits(word)
            elif kind in ("zero", "one", "ten", "multiplier"):
                yield from reader.count(kind, number, ending, before)
            elif kind == "currency":
                yield from reader.currency(word)
            elif kind == "percent" and reader.value is not None and (word == "percent" or after == "cent"):
                yield reader.out(f"{reader.value}%")
                i += word == "per"
            elif kind == "repeat" and (after in _ONES or after in _ZEROS):
                digit = str(_ONES.get(after or "", 0))
                reader.value = str(reader.value or "") + digit * (2 if word == "double" else 3)
                i += 1
            else:
                yield from reader.join(kind, word, before, after)
        yield from reader.flush()

    def preprocess(self, s: str) -> str:
        """"three and a half million" as "three point five million"; spaces between letters and digits."""
        parts = re.split(r"\band\s+a\s+half\b", s)
        made = []
        for i, part in enumerate(parts):
            if not part.strip():
                continue
            made.append(part)
            if i < len(parts) - 1:
                last = part.split()[-1]
                counted = last in _ONES or last in _TENS or last in _ZEROS or last in _MULTIPLIERS
                made.append("point five" if counted else "and a half")
        s = re.sub(r"([a-z])([0-9])", r"\1 \2", " ".join(made))
        s = re.sub(r"([0-9])([a-z])", r"\1 \2", s)
        return re.sub(r"([0-9])\s+(st|nd|rd|th|s)\b", r"\1\2", s)

    def postprocess(self, s: str) -> str:
        """"$2 and ¢7" as "$2.07", "$0.36" as "¢36", a lone 1 as "one"."""
        s = re.sub(r"([€£$])([0-9]+) (?:and )?¢([0-9]{1,2})\b", lambda m: f"{m[1]}{m[2]}.{int(m[3]):02d}", s)
        s = re.sub(r"[€£$]0.([0-9]{1,2})\b", lambda m: f"¢{int(m[1])}", s)
        return re.sub(r"\b1(s?)\b", r"one\1", s)

    def __call__(self, s: str) -> str:
        return self.postprocess(" ".join(self.process_words(self.preprocess(s).split())))


class EnglishSpellingNormalizer:
    """American spellings for British ones, word by word."""

    def __init__(self) -> None:
        with open(os.path.join(os.path.dirname(__file__), "english.json"), encoding="utf-8") as file:
            self.mapping: dict[str, str] = json.load(file)

    def __call__(self, s: str) -> str:
        return " ".join(self.mapping.get(word, word) for word in s.split())


_CONTRACTIONS = {
    "won't": "will not", "can't": "can not", "let's": "let us", "ain't": "aint", "y'all": "you all",
    "wanna": "want to", "gotta": "got to", "gonna": "going to", "i'ma": "i am going to", "imma": "i am going to",
    "woulda": "would have", "coulda": "could have", "shoulda": "should have", "ma'am": "madam"}
_TITLES = {
    "mr": "mister", "mrs": "missus", "st": "saint", "dr": "doctor", "prof": "professor", "capt": "captain",
    "gov": "governor", "ald": "alderman", "gen": "general", "sen": "senator", "rep": "representative",
    "pres": "president", "rev": "reverend", "hon": "honorable", "asst": "assistant", "assoc": "associate",
    "lt": "lieutenant", "col": "colonel", "jr": "junior", "sr": "senior", "esq": "esquire"}
_ENDINGS = {   # the longer ones first: "'d been" is had, other "'d" is would
    "'d been": "had been", "'s been": "has been", "'d gone": "had gone", "'s gone": "has gone", "'d done": "had done",
    "'s got": "has got", "n't": "not", "'re": "are", "'s": "is", "'d": "would", "'ll": "will", "'t": "not",
    "'ve": "have", "'m": "am"}


class EnglishTextNormalizer:
    """Lower case; no brackets, fillers and punctuation; contractions, titles, numbers and spellings in one form."""

    def __init__(self) -> None:
        self.ignore_patterns = r"\b(hmm|mm|mhm|mmm|uh|um)\b"
        self.replacers = {
            **{rf"\b{short}\b": full for short, full in _CONTRACTIONS.items()},
            **{rf"\b{short}\b": full + " " for short, full in _TITLES.items()},
            **{rf"{short}\b": " " + full for short, full in _ENDINGS.items()}}
        self.standardize_numbers = EnglishNumberNormalizer()
        self.standardize_spellings = EnglishSpellingNormalizer()

    def __call__(self, s: str) -> str:
        s = re.sub(self.ignore_patterns, "", _without_brackets(s.lower()))
        s = re.sub(r"\s+'", "'", s)
        for pattern, replacement in self.replacers.items():
            s = re.sub(pattern, replacement, s)
        s = re.sub(r"(\d),(\d)", r"\1\2", s)
        s = re.sub(r"\.([^0-9]|$)", r" \1", s)
        s = remove_symbols_and_diacritics(s, keep=".%$¢€£")
        s = self.standardize_spellings(self.standardize_numbers(s))
        s = re.sub(r"[.$¢€£]([^0-9])", r" \1", s)   # symbols that stand at no number
        s = re.sub(r"([^0-9])%", r"\1 ", s)
        return re.sub(r"\s+", " ", s)
