"""max_whisper/faster_whisper/tokenizer.py - text and tokens: the vocabulary, and what a task and a language make of it.

Vocabulary is what WhisperModel.hf_tokenizer is: the calls of tokenizers.Tokenizer that programs around faster-whisper
use, answered by the library. Tokenizer also takes a real tokenizers.Tokenizer.
"""
from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .. import _catalog
from .._model import Model

_TASKS = ("transcribe", "translate")
_LANGUAGE_CODES = (*sorted(set(_catalog.languages()) - {"yue"}), "yue")   # faster-whisper's order
_WITHOUT_SPACES = {"zh", "ja", "th", "lo", "my", "yue"}
_REPLACEMENT = "\ufffd"


@dataclass
class Encoding:
    """The tokens of a text."""

    ids: list[int]
    tokens: list[str]


class Vocabulary:
    """The vocabulary of a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        n_vocab = int(model.info["dims"]["n_vocab"])
        multilingual = n_vocab >= 51865
        first = 50257 if multilingual else 50256
        n_languages = n_vocab - 51765 - int(multilingual)
        names = ["<|endoftext|>", "<|startoftranscript|>"]
        names += [f"<|{code}|>" for code in list(_catalog.languages())[:n_languages]]
        names += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>",
                  "<|notimestamps|>"]
        names += [f"<|{i * 0.02:.2f}|>" for i in range(n_vocab - first - len(names))]
        self._special = {name: first + i for i, name in enumerate(names)}
        self._special["<|nocaptions|>"] = self._special["<|nospeech|>"]
        self._names = {first + i: name for i, name in enumerate(names)}
        self._first, self._size = first, n_vocab

    def token_to_id(self, token: str) -> int | None:
        """The id of a special token, or of a text that is one token; None if there is none."""
        if token in self._special:
            return self._special[token]
        ids = self._model.encode(token.replace("Ġ", " "))
        return ids[0] if len(ids) == 1 else None

    def id_to_token(self, id: int) -> str | None:
        """The text of a token; None if there is no such token."""
        if not 0 <= id < self._size:
            return None
        return self._names.get(id) or self._model.decode([id]).replace(" ", "Ġ")

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """How many tokens there are."""
        return self._size if with_added_tokens else self._first

    def encode(self, sequence: str, pair: None = None, is_pretokenized: bool = False,
               add_special_tokens: bool = True) -> Encoding:
        """The tokens of a text. add_special_tokens: what a transcript of it begins and ends with."""
        if pair is not None or is_pretokenized:
            raise NotImplementedError("encode: pairs and lists of words are not encoded")
        ids = self._model.encode(sequence)
        if add_special_tokens:
            special = self._special
            ids = [special["<|startoftranscript|>"], special["<|notimestamps|>"], *ids, special["<|endoftext|>"]]
        return Encoding(ids, [self.id_to_token(id) or "" for id in ids])

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens; broken characters become U+FFFD."""
        if skip_special_tokens:
            return self._model.decode([int(id) for id in ids if id < self._first])
        parts, text = [], []
        for id in (*ids, None):
            if id is not None and id < self._first:
                text.append(int(id))
                continue
            parts.append(self._model.decode(text))
            parts.append(self._names.get(id, "") if id is not None else "")
            text = []
        return "".join(parts)

    def decode_batch(self, sequences: Iterable[Sequence[int]], skip_special_tokens: bool = True) -> list[str]:
        """The texts of many."""
        return [self.decode(ids, skip_special_tokens) for ids in sequences]


class Tokenizer:
    """A vocabulary with a task and a language."""

    def __init__(self, tokenizer: Any, multilingual: bool, task: str | None = None,
                 language: str | None = None) -> None:
        self.tokenizer = tokenizer
        self.task: int | None = None
        self.language: int | None = None
        self.language_code = "en"
        if not multilingual:
            return
        if task not in _TASKS:
            raise ValueError(f"'{task}' is not a valid task (accepted tasks: {', '.join(_TASKS)})")
        if language not in _LANGUAGE_CODES:
            raise ValueError(f"'{language}' is not a valid language code (accepted language codes: "
                             f"{', '.join(_LANGUAGE_CODES)})")
        self.task = self._id(f"<|{task}|>")
        self.language = self._id(f"<|{language}|>")
        self.language_code = str(language)

    def _id(self, name: str) -> int:
        return self.tokenizer.token_to_id(name)   # type: ignore[no-any-return]

    @cached_property
    def transcribe(self) -> int:
        return self._id("<|transcribe|>")

    @cached_property
    def translate(self) -> int:
        return self._id("<|translate|>")

    @cached_property
    def sot(self) -> int:
        return self._id("<|startoftranscript|>")

    @cached_property
    def sot_lm(self) -> int:
        return self._id("<|startoflm|>")

    @cached_property
    def sot_prev(self) -> int:
        return self._id("<|startofprev|>")

    @cached_property
    def eot(self) -> int:
        return self._id("<|endoftext|>")

    @cached_property
    def no_timestamps(self) -> int:
        return self._id("<|notimestamps|>")

    @cached_property
    def no_speech(self) -> int:
        return self._id("<|nospeech|>") or self._id("<|nocaptions|>")

    @property
    def timestamp_begin(self) -> int:
        """The token <|0.00|>; the others follow in steps of 20 ms."""
        return self.no_timestamps + 1

    @property
    def sot_sequence(self) -> list[int]:
        """What a transcript begins with."""
        return [token for token in (self.sot, self.language, self.task) if token is not None]

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens, without special ones."""
        return str(self.tokenizer.decode([token for token in tokens if token < self.eot]))

    def decode_with_timestamps(self, tokens: Iterable[int]) -> str:
        """The text with timestamps as <|1.08|>."""
        parts: list[str] = []
        text: list[int] = []
        for token in tokens:
            if token < self.timestamp_begin:
                text.append(token)
                continue
            parts += [str(self.tokenizer.decode(text)), f"<|{(token - self.timestamp_begin) * 0.02:.2f}|>"]
            text = []
        return "".join([*parts, str(self.tokenizer.decode(text))])

    @cached_property
    def non_speech_tokens(self) -> tuple[int, ...]:
        """Tokens of symbols that are written but not spoken: notes, brackets, tags of speakers; and a hyphen or an
        apostrophe that begins a word."""
        symbols = [*"\"#()*+/:;<=>@[\\]^_`{|}~「」『』", *("<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} "
                                                       "♪♪ ♪♪♪").split()]
        notes = [*"♩♪♫♬♭♮♯"]   # several tokens each: their first one stands for all of them
        found = {self.encode(" -")[0], self.encode(" '")[0]}
        for symbol in symbols + notes:
            for ids in (self.encode(symbol), self.encode(" " + symbol)):
                if len(ids) == 1 or symbol in notes:
                    found.add(ids[0])
        return tuple(sorted(found))

    def split_to_word_tokens(self, tokens: list[int]) -> tuple[list[str], list[list[int]]]:
        """Words and their tokens; characters, in languages that are written without spaces."""
        if self.language_code in _WITHOUT_SPACES:
            return self.split_tokens_on_unicode(tokens)
        return self.split_tokens_on_spaces(tokens)

    def split_tokens_on_unicode(self, tokens: list[int]) -> tuple[list[str], list[list[int]]]:
        """The smallest pieces that are whole characters. A U+FFFD that the whole text has in the same place counts as
        one: those bytes are broken."""
        whole = self.decode_with_timestamps(tokens)
        pieces: list[str] = []
        piece_tokens: list[list[int]] = []
        current: list[int] = []
        n_before = 0
        for token in tokens:
            current.append(token)
            piece = self.decode_with_timestamps(current)
            at = piece.find(_REPLACEMENT)
            if at < 0 or whole[n_before + at:n_before + at + 1] == _REPLACEMENT:
                pieces.append(piece)
                piece_tokens.append(current)
                current = []
                n_before += len(piece)
        return pieces, piece_tokens

    def split_tokens_on_spaces(self, tokens: list[int]) -> tuple[list[str], list[list[int]]]:
        """Pieces joined to words: a special token, a space, or punctuation begins a new one."""
        words: list[str] = []
        word_tokens: list[list[int]] = []
        for piece, ids in zip(*self.split_tokens_on_unicode(tokens)):
            begins = ids[0] >= self.eot or piece.startswith(" ") or piece.strip() in string.punctuation
            if begins or not words:
                words.append(piece)
                word_tokens.append(ids)
            else:
                words[-1] += piece
                word_tokens[-1].extend(ids)
        return words, word_tokens
