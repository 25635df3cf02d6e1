"""max_whisper/openai/tokenizer.py - text and tokens, as openai-whisper's module of this name has them.

The vocabularies and the byte-pair merges are the library's; Encoding has what programs use of tiktoken's class.
"""
from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from .. import _native

LANGUAGES: dict[str, str] = dict(_native.languages())
_ALIASES = ("burmese", "valencian", "flemish", "haitian", "letzeburgesch", "pushto", "panjabi", "moldavian",
            "moldovan", "sinhalese", "castilian", "mandarin")
TO_LANGUAGE_CODE: dict[str, str] = {
    **{name: code for code, name in LANGUAGES.items()},
    **{alias: _native.find_language(alias) or "" for alias in _ALIASES},
}
_UNSPACED = frozenset(("zh", "ja", "th", "lo", "my", "yue"))   # written without spaces between words
_ENGLISH_VOCABULARY, _SMALLEST_MULTILINGUAL = 51864, 51865   # the latter has 99 languages


class Encoding:
    """A vocabulary: ids to bytes, text to ids."""

    def __init__(self, name: str, n_vocab: int) -> None:
        self.name, self.n_vocab = name, n_vocab
        self._native = _native.Tokenizer(n_vocab)
        self._bytes = self._native.tokens()
        self._first_special = self._bytes.index(b"<|endoftext|>")
        self._special = {self._bytes[i].decode(): i for i in range(self._first_special, n_vocab)}

    @property
    def eot_token(self) -> int:
        return self._first_special

    @property
    def special_tokens_set(self) -> set[str]:
        return set(self._special)

    @property
    def max_token_value(self) -> int:
        return self.n_vocab - 1

    def encode(self, text: str, *, allowed_special: Any = (), disallowed_special: Any = "all") -> list[int]:
        """Ids of a text. ValueError if there is the text of a special token in it, as tiktoken has it."""
        if allowed_special or disallowed_special != "all":
            return self._encode_special(text, allowed_special, disallowed_special)
        return self._native.encode(text)

    def _encode_special(self, text: str, allowed: Any, disallowed: Any) -> list[int]:
        """Special tokens that are allowed become their ids; the rest must be refused, which is all the library does."""
        names = set(self._special) if allowed == "all" else set(allowed)
        if disallowed != "all" and set(self._special) - names - set(disallowed):
            raise ValueError("disallowed_special: special tokens as ordinary text are not supported")
        ids: list[int] = []
        while text:
            at, name = min(((text.index(name), name) for name in names if name in text), default=(len(text), ""))
            ids += self._native.encode(text[:at])
            ids += [self._special[name]] if name else []
            text = text[at + len(name):]
        return ids

    def encode_ordinary(self, text: str) -> list[int]:
        return self._native.encode(text)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """KeyError if it is not one token."""
        wanted = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        try:
            return self._bytes.index(wanted)
        except ValueError:
            raise KeyError(text_or_bytes) from None

    def decode_bytes(self, tokens: Iterable[int]) -> bytes:
        """KeyError if an id is not in the vocabulary."""
        ids = [int(token) for token in tokens]
        for token in ids:
            if not 0 <= token < self.n_vocab:
                raise KeyError(f"Invalid token for decoding: {token}")
        return b"".join(self._bytes[token] for token in ids)

    def decode_single_token_bytes(self, token: int) -> bytes:
        return self.decode_bytes([token])

    def decode(self, tokens: Iterable[int], errors: str = "replace") -> str:
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"


@dataclass
class Tokenizer:
    """A vocabulary with the special tokens of a language and a task."""

    encoding: Encoding
    num_languages: int
    language: str | None = None
    task: str | None = None
    sot_sequence: tuple[int, ...] = ()
    special_tokens: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.special_tokens.update(self.encoding._special)
        sequence = [self.sot]
        if self.language is not None:
            sequence.append(self.sot + 1 + list(LANGUAGES)[:self.num_languages].index(self.language))
        if self.task is not None:
            sequence.append(self.transcribe if self.task == "transcribe" else self.translate)
        self.sot_sequence = tuple(sequence)

    # ---- text ----------------------------------------------------------------------------------------------------

    def encode(self, text: str, **kwargs: Any) -> list[int]:
        return self.encoding.encode(text, **kwargs)

    def decode(self, token_ids: Iterable[int], **kwargs: Any) -> str:
        """Text of the tokens; timestamps are left out."""
        return self.encoding.decode([token for token in token_ids if token < self.timestamp_begin], **kwargs)

    def decode_with_timestamps(self, token_ids: Iterable[int], **kwargs: Any) -> str:
        """The same, with timestamps as "<|1.08|>"."""
        return self.encoding.decode(token_ids, **kwargs)

    # ---- special tokens ------------------------------------------------------------------------------------------

    @cached_property
    def eot(self) -> int:
        return self.encoding.eot_token

    @cached_property
    def transcribe(self) -> int:
        return self.special_tokens["<|transcribe|>"]

    @cached_property
    def translate(self) -> int:
        return self.special_tokens["<|translate|>"]

    @cached_property
    def sot(self) -> int:
        return self.special_tokens["<|startoftranscript|>"]

    @cached_property
    def sot_lm(self) -> int:
        return self.special_tokens["<|startoflm|>"]

    @cached_property
    def sot_prev(self) -> int:
        return self.special_tokens["<|startofprev|>"]

    @cached_property
    def no_speech(self) -> int:
        return self.special_tokens["<|nospeech|>"]

    @cached_property
    def no_timestamps(self) -> int:
        return self.special_tokens["<|notimestamps|>"]

    @cached_property
    def timestamp_begin(self) -> int:
        return self.special_tokens["<|0.00|>"]

    @cached_property
    def language_token(self) -> int:
        """The token of the tokenizer's language; ValueError if it has none."""
        if self.language is None:
            raise ValueError("This tokenizer does not have language token configured")
        return self.to_language_token(self.language)

    def to_language_token(self, language: str) -> int:
        """The token of a language, by its code; KeyError if there is none."""
        token = self.special_tokens.get(f"<|{language}|>")
        if token is None:
            raise KeyError(f"Language {language} not found in tokenizer.")
        return token

    @cached_property
    def all_language_tokens(self) -> tuple[int, ...]:
        return tuple(self.special_tokens[f"<|{code}|>"] for code in self.all_language_codes)

    @cached_property
    def all_language_codes(self) -> tuple[str, ...]:
        return tuple(LANGUAGES)[:self.num_languages]

    @cached_property
    def sot_sequence_including_notimestamps(self) -> tuple[int, ...]:
        return (*self.sot_sequence, self.no_timestamps)

    @cached_property
    def non_speech_tokens(self) -> tuple[int, ...]:
        """Tokens of annotations and speakers' names ("[DAVID]", "♪♪♪"), which decoding suppresses."""
        always = "♩♪♫♬♭♮♯"   # their first two bytes are those of nothing else that is spoken
        symbols = [*'"#()*+/:;<=>@[\\]^_`{|}~「」『』', *always,
                   *"<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪".split()]
        found = {self.encoding.encode(" -")[0], self.encoding.encode(" '")[0]}
        for symbol in symbols:
            for tokens in (self.encoding.encode(symbol), self.encoding.encode(" " + symbol)):
                if len(tokens) == 1 or symbol in always:
                    found.add(tokens[0])
        return tuple(sorted(found))

    # ---- words ---------------------------------------------------------------------------------------------------

    def split_to_word_tokens(self, tokens: Sequence[int]) -> tuple[list[str], list[list[int]]]:
        """Words and the tokens of each; at spaces, or in languages without them at characters."""
        if self.language in _UNSPACED:
            return self.split_tokens_on_unicode(tokens)
        return self.split_tokens_on_spaces(tokens)

    def split_tokens_on_unicode(self, tokens: Sequence[int]) -> tuple[list[str], list[list[int]]]:
        """The shortest runs of tokens that are whole characters. A character that is broken in the text as a whole
        (U+FFFD there as well) is not waited for."""
        whole = self.decode_with_timestamps(tokens)
        words: list[str] = []
        groups: list[list[int]] = []
        group: list[int] = []
        done = 0   # characters of `whole`
        for token in tokens:
            group.append(token)
            text = self.decode_with_timestamps(group)
            broken = text.find("\ufffd")
            if broken < 0 or whole[done + broken] == "\ufffd":
                words.append(text)
                groups.append(group)
                done += len(text)
                group = []
        return words, groups

    def split_tokens_on_spaces(self, tokens: Sequence[int]) -> tuple[list[str], list[list[int]]]:
        """The same, joined to words: one begins at a space, at punctuation, and at every special token."""
        words: list[str] = []
        groups: list[list[int]] = []
        for text, group in zip(*self.split_tokens_on_unicode(tokens)):
            if not words or group[0] >= self.eot or text.startswith(" ") or text.strip() in string.punctuation:
                words.append(text)
                groups.append(group)
            else:
                words[-1] += text
                groups[-1].extend(group)
        return words, groups


@lru_cache(maxsize=None)
def get_encoding(name: str = "gpt2", num_languages: int = 99) -> Encoding:
    """One of the vocabularies: "gpt2", of the English-only models, or "multilingual", with 99 or 100 languages."""
    sizes = {("gpt2", 99): _ENGLISH_VOCABULARY, ("multilingual", 99): _SMALLEST_MULTILINGUAL,
             ("multilingual", 100): _SMALLEST_MULTILINGUAL + 1}
    if (name, num_languages) not in sizes:
        raise ValueError(f"num_languages: no model has the vocabulary {name!r} with {num_languages} languages")
    return Encoding(name + ".tiktoken", sizes[name, num_languages])


@lru_cache(maxsize=None)
def get_tokenizer(multilingual: bool, *, num_languages: int = 99, language: str | None = None,
                  task: str | None = None) -> Tokenizer:
    """The tokenizer of a model. language: code or name; task: "transcribe" or "translate"."""
    if language is not None:
        language = language.lower()
        if language not in LANGUAGES:
            if language not in TO_LANGUAGE_CODE:
                raise ValueError(f"Unsupported language: {language}")
            language = TO_LANGUAGE_CODE[language]
    encoding = get_encoding("multilingual" if multilingual else "gpt2", num_languages)
    if not multilingual:
        return Tokenizer(encoding, num_languages)
    return Tokenizer(encoding, num_languages, language or "en", task or "transcribe")
