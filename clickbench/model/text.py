"""Strings by the ten thousand: each is a few spans of one large buffer, copied in one go.

In: spans (start, length) per string, all of them into the arena. Out: Arrow string arrays. The
arena holds literals, a soup of URL fragments (ASCII, may be cut anywhere), a soup of Russian
words (cut where a word begins), and all codes of three letters, from which unique tails are made.

Invariant: what comes out is valid UTF-8, holds neither `google` nor `Google` unless a literal
with it was asked for, and the arena is the same in every process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clickbench.model.noise import Bits, Integers, Noise

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOUP_BYTES = 1 << 19
# Slices of the URL soup start at so many places only: real URLs share beginnings, which is what
# makes them compress.
_URL_STARTS, _URL_STEP = 600, 400
_SYLLABLES = (
    "ка ре ло ви то на про сти мо де ле ра га зи ни по во да ма ту ры ске бо жи чи ша "
    "об ста при ско ень ать ный ная ция ово ест ник ура оль ист"
).split()
_WORDS = (
    "смотреть онлайн бесплатно купить цена фильм сезон игры скачать отзывы Россия Москва "
    "авто продажа фото видео новости погода карта работа рецепт дома платье сайт"
).split()
_FRAGMENTS = (
    "index.php?id= page= /catalog/ /search? &lr= &text= showthread= /news/ .html /detail/ &sort= "
    "/auto/ &price= /women/ /product_ &input_who= %2F %3D &pvid= /foto/ /forum/ viewtopic &state= "
    "/rooms= /kvartir real-estate /job/ &marka= /list/ category= /cars/ #page &view= -advert /user/"
).split()
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
CODE_BYTES = 3
_CODES = len(_LETTERS) ** CODE_BYTES


@dataclass(frozen=True)
class Spans:
    """Per string, where a piece of it starts in the arena and how long it is."""

    starts: Integers
    lengths: Integers


def _russian_words(noise: Noise, count: int) -> list[str]:
    ids = np.arange(count * 4, dtype=np.uint64)
    syllables = noise.below("syllables", ids, len(_SYLLABLES)).reshape(count, 4)
    sizes = noise.below("word sizes", ids[:count], 4) + 1
    made = [
        "".join(_SYLLABLES[s] for s in row[:n]) for row, n in zip(syllables, sizes, strict=True)
    ]
    return [_WORDS[i % len(_WORDS)] if i % 5 == 0 else word for i, word in enumerate(made)]


def _url_fragments(noise: Noise, count: int) -> list[str]:
    ids = np.arange(count, dtype=np.uint64)
    fragments = noise.below("fragments", ids, len(_FRAGMENTS))
    numbers = noise.below("numbers", ids, 100_000_000)
    digits = noise.below("digits", ids, 4) + 1
    return [_FRAGMENTS[f] + str(n)[:d] for f, n, d in zip(fragments, numbers, digits, strict=True)]


def _fill(words: list[str], order: Integers, separator: str, size: int) -> bytes:
    return separator.join(words[i] for i in order).encode()[:size]


class Arena:
    """One buffer of text and the places of things in it."""

    def __init__(self, literals: Sequence[str]) -> None:
        noise = Noise(0)  # the words are the same for every seed; what is picked of them is not
        words = _russian_words(noise, 4096)
        order = noise.below("word order", np.arange(60_000, dtype=np.uint64), len(words))
        russian = (" ".join(words[i] for i in order) + " ").encode()
        fragments = _url_fragments(noise, 60_000)
        url = "".join(fragments).encode()[:_SOUP_BYTES]
        codes = "".join(a + b + c for a in _LETTERS for b in _LETTERS for c in _LETTERS).encode()
        encoded = [text.encode() for text in literals]
        parts = [url, russian, codes, *encoded]
        places = np.cumsum([0, *(len(part) for part in parts)])
        self._bytes = np.frombuffer(b"".join(parts), dtype=np.uint8)
        self._url_size = len(url)
        self._russian_start, self._russian_size = int(places[1]), len(russian)
        self._codes_start = int(places[2])
        self._literal_starts = places[3:-1].astype(np.int64)
        self._literal_lengths = np.array([len(text) for text in encoded], dtype=np.int64)
        soup = np.frombuffer(russian, dtype=np.uint8)
        begins = np.flatnonzero(np.concatenate([[True], soup[:-1] == ord(" ")]))
        self._word_start = begins[
            np.searchsorted(begins, np.arange(len(russian))).clip(max=len(begins) - 1)
        ]

    def literal(self, index: Integers) -> Spans:
        """The literals of these numbers."""
        return Spans(self._literal_starts[index], self._literal_lengths[index])

    def url(self, bits: Bits, lengths: Integers) -> Spans:
        """Slices of the URL soup, of exactly these lengths."""
        lengths = np.clip(lengths, 0, self._url_size // 2)
        starts = (bits % np.uint64(_URL_STARTS)).astype(np.int64) * _URL_STEP
        return Spans(starts, lengths)

    def russian(self, bits: Bits, lengths: Integers) -> Spans:
        """Slices of the Russian soup: whole words, about these lengths."""
        half = self._russian_size // 2
        first = self._word_start[(bits % np.uint64(half)).astype(np.int64)]
        last = self._word_start[first + np.clip(lengths, 0, half - 64)]
        # The space before the next word is left out.
        return Spans(first + self._russian_start, np.maximum(last - first - 1, 0))

    def code(self, bits: Bits) -> Spans:
        """A code of three letters for the low bits of a number."""
        index = (bits % np.uint64(_CODES)).astype(np.int64)
        starts = self._codes_start + index * CODE_BYTES
        return Spans(starts, np.full(len(starts), CODE_BYTES, dtype=np.int64))

    def tail(self, bits: Bits) -> list[Spans]:
        """Four codes of a number: 12 letters, different for numbers that differ in 62 bits."""
        step = np.uint64(_CODES)
        return [self.code(bits // step ** np.uint64(power)) for power in range(4)]

    def join(self, parts: Sequence[Spans]) -> pa.Array:
        """One string per row: the spans of its parts, one after the other."""
        starts = np.stack([part.starts for part in parts], axis=1).ravel()
        lengths = np.stack([part.lengths for part in parts], axis=1).ravel()
        return _gather(self._bytes, starts, lengths, len(parts))


def _gather(
    source: npt.NDArray[np.uint8], starts: Integers, lengths: Integers, parts: int
) -> pa.Array:
    """Copies spans; every `parts` of them make a string."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    # Position in the source = position in the output + a shift that is constant in a span.
    index = np.repeat((starts - (ends - lengths)).astype(np.int32), lengths)
    index += np.arange(total, dtype=np.int32)
    offsets = np.zeros(len(lengths) // parts + 1, dtype=np.int32)
    offsets[1:] = ends[parts - 1 :: parts]
    return pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(source[index])
    )


def take(values: Sequence[str], index: npt.NDArray[Any]) -> pa.Array:
    """Strings by their number in a short list."""
    return pa.array(values, pa.string()).take(pa.array(index))
