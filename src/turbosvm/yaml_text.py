"""YAML as settings need it: read without harm, with one meaning, and written so that it is read as it was meant.

YAML 1.1 and 1.2 differ about plain words: `010` is 8 or 10, `1:30` is 90 or text, `no` is false or text. Such words are
refused; in quotes they are text. Numbers are plain decimals (`3`, `-0.5`, `1e-3`). There are no tags and no dates, keys
are text and stand once, anchors and `<<` count as what they stand for. Size, nesting and number of values are limited
while the text is read, event by event, so that nothing is built of what is too large or nested too deeply.
"""

import re
from copy import deepcopy
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import yaml

MOST_BYTES = 2**20
"""Of a text."""
MOST_VALUES = 100_000
"""In a text, those that anchors repeat counted each time."""
MOST_DEPTH = 32
MOST_LETTERS = 10_000
"""Of one value or key."""
MOST_WHOLE = 2**63

# PyYAML's compiled parser and writer are many times faster, but not built everywhere.
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WRITER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_REAL = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?=[eE]))|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_TWO_MEANINGS = re.compile(
    r"""[-+]?\.?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?  # 010, 1_000, +5
    | [-+]?0(?:b[01_]+ | o[0-7_]+ | x[0-9a-fA-F_]+)
    | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?  # 1:30
    | [0-9]{4}-[0-9][0-9]?-[0-9][0-9]?(?:[Tt\ \t].*)?
    | yes|Yes|YES | no|No|NO | on|On|ON | off|Off|OFF""",
    re.VERBOSE,
)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MERGE = "\0<<"
"""What the plain key `<<` is read as, which no text can be."""


class YamlError(ValueError):
    """A text is not YAML, or not such as settings are made of."""


def parse_yaml(content: bytes | str) -> Any:
    """Read a text; nothing of what it holds is anything but text, numbers, flags, None, lists, and dicts by text.

    Raises:
        YamlError: it is not YAML, or is more than settings need.
    """
    builder = _Builder()
    try:
        for event in yaml.parse(text := _plain_text(content), Loader=_PARSER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise YamlError(f"{_place(error.problem_mark)}{_problem(error, text)}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlError(" ".join(str(error).split())) from error
    return builder.root


def dump_yaml(value: Any) -> str:
    """Write values so that `parse_yaml` reads the same; other readers of YAML, 1.1 or 1.2, do as well."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False)
    return text


class _Dumper(_WRITER):  # type: ignore[misc, valid-type]
    """Puts text in quotes that anybody might take for something else, and repeats what occurs twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (PyYAML's)
        return True


for _like_a_number in (_REAL, _NOT_FINITE, _TWO_MEANINGS):
    _Dumper.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(rf"(?:{_like_a_number.pattern})\Z", _like_a_number.flags), None
    )


class _Part(NamedTuple):
    """A value that is whole: how many there are in it, and how deeply they are nested."""

    value: Any
    size: int = 1
    height: int = 0


@dataclass
class _Collection:
    """A list or mapping that is being read."""

    value: list[Any] | dict[str, Any]
    anchor: str | None
    key: str | None = None
    """The key whose value comes next."""
    keys: set[str] = field(default_factory=set)
    merged: dict[str, Any] = field(default_factory=dict)
    size: int = 1
    height: int = 1


class _Builder:
    """Puts values together from events, and refuses what must not be."""

    def __init__(self) -> None:
        self.root: Any = None
        self._documents = 0
        self._count = 0
        self._open: list[_Collection] = []
        self._anchors: dict[str, _Part | None] = {}  # None, while it is open

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        try:
            self._take(event)
        except YamlError as error:
            raise YamlError(f"{_place(event.start_mark)}{error}") from error

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise YamlError("there is a second document")
        elif isinstance(event, yaml.AliasEvent):
            self._put(self._repeated(str(event.anchor)))
        elif isinstance(event, yaml.ScalarEvent):
            _refuse_tag(event)
            self._count_in(1, 0)
            part = _Part(self._scalar(event))
            if event.anchor:
                self._anchors[event.anchor] = part
            self._put(part)
        elif isinstance(event, yaml.CollectionStartEvent):
            _refuse_tag(event)
            self._begin([] if isinstance(event, yaml.SequenceStartEvent) else {}, event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        if len(event.value) > MOST_LETTERS:
            raise YamlError(f"a value has {len(event.value):,} letters; at most {MOST_LETTERS:,} are read")
        if event.style:  # in quotes, or a block
            return _without_controls(event.value)  # which it may have by escapes
        return _MERGE if event.value == "<<" and self._key_comes_next else _meaning(event.value)

    @property
    def _key_comes_next(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _repeated(self, anchor: str) -> _Part:
        part = self._anchors.get(anchor)
        if part is None:
            raise YamlError(f"'*{anchor}' refers to itself" if anchor in self._anchors else f"there is no '&{anchor}'")
        self._count_in(part.size, part.height)  # before it is copied
        return part._replace(value=deepcopy(part.value))

    def _begin(self, value: list[Any] | dict[str, Any], anchor: str | None) -> None:
        if self._key_comes_next:
            raise YamlError("a key is a list or a mapping; it must be text")
        self._count_in(1, 1)
        if anchor:
            self._anchors[anchor] = None
        self._open.append(_Collection(value, anchor))

    def _end(self) -> None:
        done = self._open.pop()
        value = {**done.merged, **done.value} if isinstance(done.value, dict) else done.value
        part = _Part(value, done.size, done.height)
        if done.anchor:
            self._anchors[done.anchor] = part
        self._put(part)

    def _count_in(self, count: int, height: int) -> None:
        """Count so many values more, nested so deeply, unless that is too much."""
        self._count += count
        if self._count > MOST_VALUES:
            raise YamlError(f"there are more than {MOST_VALUES:,} values")
        if len(self._open) + height > MOST_DEPTH:
            raise YamlError(f"values are nested more than {MOST_DEPTH} deep")

    def _put(self, part: _Part) -> None:
        """Put a value where it belongs: at the top, into a list, or into a mapping as key or value."""
        if not self._open:
            self.root = part.value
            return
        place = self._open[-1]
        place.size += part.size
        place.height = max(place.height, part.height + 1)
        if isinstance(place.value, list):
            place.value.append(part.value)
        elif place.key is None:
            place.key = _new_key(part.value, place.keys)
        elif place.key == _MERGE:
            place.merged, place.key = _merged(part.value), None
        else:
            place.value[place.key], place.key = part.value, None


def _plain_text(content: bytes | str) -> str:
    size = len(content)
    if size > MOST_BYTES:
        raise YamlError(f"it has {size:,} letters; at most {MOST_BYTES:,} are read")
    try:
        text = content if isinstance(content, str) else content.decode()
    except UnicodeDecodeError as error:
        raise YamlError(f"it is not UTF-8: byte {error.start} is {content[error.start]:#04x}") from error
    return _without_controls(text.removeprefix("\ufeff"))


def _without_controls(text: str) -> str:
    if found := _CONTROL.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise YamlError(f"there is the control character U+{ord(found[0]):04X} in its line {line}")
    return text


def _refuse_tag(event: Any) -> None:
    if event.tag not in (None, "!"):
        raise YamlError(f"there is the tag '{event.tag}'; values have no tags here")


def _meaning(word: str) -> Any:
    """What a plain word is."""
    if word in _WORDS:
        return _WORDS[word]
    if _WHOLE.fullmatch(word):
        number = int(word) if len(word) < 30 else MOST_WHOLE
        if abs(number) >= MOST_WHOLE:
            raise YamlError(f"the number {_short(word)} is too large")
        return number
    if _REAL.fullmatch(word):
        if not isfinite(real := float(word)):
            raise YamlError(f"the number {_short(word)} is too large")
        return real
    if _NOT_FINITE.fullmatch(word):
        raise YamlError(f"'{word}' is not a finite number; put it in quotes if it is text")
    if _TWO_MEANINGS.fullmatch(word):
        raise YamlError(
            f"'{_short(word)}' is not read, as not everyone reads it as the same; write a plain decimal number, "
            "true or false, or put it in quotes if it is text"
        )
    return word


def _new_key(key: Any, keys: set[str]) -> str:
    if not isinstance(key, str):
        raise YamlError(f"the key '{key}' is not text; put it in quotes")
    if key in keys:
        raise YamlError(f"the key '{_short(key.lstrip(_MERGE[0]))}' is there twice")
    keys.add(key)
    return key


def _merged(value: Any) -> dict[str, Any]:
    """What stands under `<<`: a mapping, or several, of which the first counts most."""
    several = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in several):
        raise YamlError("under '<<' there must be a mapping, or a list of some")
    merged: dict[str, Any] = {}
    for one in reversed(several):
        merged |= one
    return merged


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """What the parser says, or, where a letter cannot stand, what a person can do about it."""
    mark = error.problem_mark
    if mark and "cannot start any token" in str(error.problem):
        letter = text.splitlines()[mark.line][mark.column]
        if letter == "\t":
            return "there is a tab where only spaces may stand"
        return f"no value begins with '{letter}'; put it in quotes if it is text"
    return " ".join(filter(None, (error.context, error.problem)))


def _short(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:37]}..."


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}: " if mark else ""
