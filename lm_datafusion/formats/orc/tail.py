"""The tail of a file: postscript and footer, and where the stripe statistics are.

In: an open file. Out: its `Tail`, checked.

    ... | stripes | stripe statistics | footer | postscript | length of the postscript, one byte

Invariant: every stripe lies in the file before the tail; the rows of the stripes add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.errors import CorruptFileError, UnsupportedFeatureError
from lm_datafusion.formats.orc.chunks import ChunkFormat
from lm_datafusion.formats.orc.damage import named_damage
from lm_datafusion.formats.orc.messages import Footer, PostScript
from lm_datafusion.formats.orc.spec import LARGEST_CHUNK, MAGIC
from lm_datafusion.formats.orc.types import TypeTree
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.orc.messages import StripeInformation
    from lm_datafusion.storage import OpenFile

# Read at once from the end of a file; most tails fit.
_GUESS_BYTES = 16 * 1024
# The largest footer of a file or stripe that is inflated: a million columns or stripes.
MOST_FOOTER_BYTES = 64 << 20
# One stripe may not have more rows than Arrow can count in an int32 array of offsets.
_MOST_STRIPE_ROWS = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What the end of a file says about it."""

    post_script: PostScript
    footer: Footer
    types: TypeTree
    chunks: ChunkFormat
    metadata: ByteRange
    length_bytes: int

    @property
    def stripes(self) -> Sequence[StripeInformation]:
        """The stripes, in the order of rows."""
        return self.footer.stripes

    def has_encrypted(self, column: int) -> bool:
        """Whether a column, one below it or one above it is encrypted."""
        return any(
            root in self.types.subtree(column) or column in self.types.subtree(root)
            for root in self.footer.encrypted_roots
            if root < len(self.types)
        )


def load_tail(file: OpenFile) -> Tail:
    """Reads the tail of a file.

    Raises:
        CorruptFileError: It is not the tail of an ORC file.
        UnsupportedFeatureError: The file is not a table.
    """
    path, size = file.version.path, file.version.size_bytes
    if size <= len(MAGIC) + 1:
        raise CorruptFileError(f"{size} bytes are too few for an ORC file", path=path)
    with named_damage(path, "the tail"):
        tail = _load_checked(file, size)
    if not tail.types.has_struct_root:
        raise UnsupportedFeatureError(f"{path}: the root of an ORC table is a struct")
    return tail


def _load_checked(file: OpenFile, size: int) -> Tail:
    guess = min(size, _GUESS_BYTES)
    (end,) = file.fetch_ranges([ByteRange(size - guess, guess)])
    length = end[-1]
    if length + 1 > len(end):
        raise ValueError("the postscript begins before the file")
    post_script = PostScript.parse(end[len(end) - 1 - length : -1])
    if not post_script.has_magic:
        (head,) = file.fetch_ranges([ByteRange(0, len(MAGIC))])
        if head != MAGIC:
            raise ValueError("not an ORC file")
    chunks = _chunk_format(post_script)
    footer_stop = size - 1 - length
    metadata_stop = footer_stop - post_script.footer_length
    metadata_start = metadata_stop - post_script.metadata_length
    if metadata_start < 0:
        raise ValueError("the footer begins before the file")
    if size - metadata_stop > len(end):
        end = file.fetch_ranges([ByteRange(metadata_stop, size - metadata_stop)])[0]
    packed = end[len(end) - (size - metadata_stop) :][: post_script.footer_length]
    footer = Footer.parse(chunks.inflate(packed, limit=MOST_FOOTER_BYTES))
    _check_stripes(footer, metadata_start)
    return Tail(
        post_script=post_script,
        footer=footer,
        types=TypeTree(footer.types),
        chunks=chunks,
        metadata=ByteRange(metadata_start, post_script.metadata_length),
        length_bytes=len(packed),
    )


def _chunk_format(post_script: PostScript) -> ChunkFormat:
    if post_script.compression and not 0 < post_script.block_size <= LARGEST_CHUNK + 1:
        raise ValueError(f"blocks of {post_script.block_size} bytes")
    return ChunkFormat(compression=post_script.compression, block_size=post_script.block_size)


def _check_stripes(footer: Footer, stop: int) -> None:
    for index, stripe in enumerate(footer.stripes):
        if stripe.stop > stop:
            raise ValueError(f"stripe {index} ends after the stripes of the file")
        if stripe.row_count > _MOST_STRIPE_ROWS:
            raise ValueError(f"stripe {index} has {stripe.row_count} rows")
    rows = sum(stripe.row_count for stripe in footer.stripes)
    if rows != footer.row_count:
        raise ValueError(f"the stripes have {rows} rows, the file {footer.row_count}")
