"""A look at JSON before its parser gets it: broken or hostile files can crash ijson's compiled parser.

Its 3.6 ends the process on a whole number of more than 4,300 digits, and fills the memory on thousands of lists inside
one another. LEAF's files have neither.
"""

from typing import BinaryIO

import numba
import numpy as np
import numpy.typing as npt

DEEPEST = 32
MOST_DIGITS = 1000

QUOTE, ESCAPE = ord('"'), ord("\\")
OPENING, CLOSING = (ord("["), ord("{")), (ord("]"), ord("}"))
ZERO, NINE = ord("0"), ord("9")
FINE, TOO_DEEP, TOO_LONG = range(3)


class Guarded:
    """A file that is read through; what no JSON of ours has is an error before the parser sees it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.rewind()

    def rewind(self) -> None:
        """Go back to the beginning."""
        self._stream.seek(0)
        self._state = np.zeros(4, dtype=np.int64)
        self._ended = False

    @property
    def cut_off(self) -> bool:
        """Whether the file ended inside something, as far as it was read; an empty one did, too."""
        return self._ended and bool(self._state[2] > 0 or not self._stream.tell())

    def read(self, size: int = -1) -> bytes:
        """Read on, as a file does."""
        block = self._stream.read(size)
        self._ended = not block
        verdict = _scan(np.frombuffer(block, dtype=np.uint8), self._state)
        if verdict == TOO_DEEP:
            raise ValueError(f"lists or objects are inside one another more than {DEEPEST} deep")
        if verdict == TOO_LONG:
            raise ValueError(f"a number has more than {MOST_DIGITS} digits")
        return block


@numba.njit(cache=True, nogil=True)
def _scan(block: npt.NDArray[np.uint8], state: npt.NDArray[np.int64]) -> int:
    """Go through some bytes; the state is (inside a string, after a backslash, depth, digits in a row)."""
    in_string, escaped, depth, digits = state
    for byte in block:
        if in_string:
            if escaped:
                escaped = 0
            elif byte == ESCAPE:
                escaped = 1
            elif byte == QUOTE:
                in_string = 0
        elif ZERO <= byte <= NINE:
            digits += 1
            if digits > MOST_DIGITS:
                return TOO_LONG
        else:
            digits = 0
            if byte == QUOTE:
                in_string = 1
            elif byte in OPENING:
                depth += 1
                if depth > DEEPEST:
                    return TOO_DEEP
            elif byte in CLOSING:
                depth -= 1
    state[:] = (in_string, escaped, depth, digits)
    return FINE
