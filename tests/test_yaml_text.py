"""YAML as settings need it: one meaning, and no harm."""

import time
from typing import Any

import pytest
import yaml

from turbosvm import yaml_text
from turbosvm.yaml_text import YamlError, dump_yaml, parse_yaml

DOUBLINGS = "".join(f"a{number}: &a{number} [*a{number - 1},*a{number - 1}]\n" for number in range(1, 60))
MERGES = "".join(f"a{number}: &a{number} {{<<: [*a{number - 1},*a{number - 1}]}}\n" for number in range(1, 60))
BOMBS = {
    "doubled lists": (f"a0: &a0 [x, x]\n{DOUBLINGS}", "more than 100,000 values"),
    "doubled merges": (f"a0: &a0 {{x: 1}}\n{MERGES}", "more than 100,000 values"),
    "lists": ("[" * 200_000, "nested more than 32 deep"),
    "lists of two": ("[1, " * 200_000, "nested more than 32 deep"),
    "mappings": ("{a: " * 200_000, "nested more than 32 deep"),
    "mappings as keys": ("{" * 200_000, "a key is a list or a mapping"),
    "dashes": ("- " * 200_000, "nested more than 32 deep"),
    "question marks": ("? " * 200_000, "a key is a list or a mapping"),
    "indentation": ("".join(f"{' ' * depth}a:\n" for depth in range(1_400)), "nested more than 32 deep"),
    "itself": ("a: &a [*a]", r"'\*a' refers to itself"),
    "itself as a value": ("a: &a {b: *a}", r"'\*a' refers to itself"),
    "nested by names": ("a: &a " + "[" * 20 + "]" * 20 + "\nb: " + "[" * 20 + "*a" + "]" * 20, "32 deep"),
    "many": (f"[{'1,' * 400_000}]", "more than 100,000 values"),
    "long": (f"a: {'x' * 20_000}", "20,000 letters"),
    "large": ("#" * (2**20 + 1), "1,048,577 letters"),
}


@pytest.mark.parametrize("parser", [yaml_text._PARSER, yaml.SafeLoader])
@pytest.mark.parametrize("name", BOMBS)
def test_what_would_hang_or_crash_is_refused_soon(name: str, parser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "_PARSER", parser)
    text, sentence = BOMBS[name]
    began = time.perf_counter()
    with pytest.raises(YamlError, match=sentence):
        parse_yaml(text)
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: !!str 1", "line 1: there is the tag"),
        ("a: !!python/object:os.system {}", "there is the tag"),
        ("!mine {a: 1}", "there is the tag"),
        ("a: 1\n---\nb: 2", "line 2: there is a second document"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' is there twice"),
        ("{<<: {a: 1}, <<: {a: 2}}", "the key '<<' is there twice"),
        ("<<: 3", "under '<<' there must be a mapping"),
        ("[1, 2]: 3", "a key is a list or a mapping; it must be text"),
        ("1: 2", "the key '1' is not text; put it in quotes"),
        ("null: 2", "the key 'None' is not text"),
        ("- &a [1]\n- {*a : 1}", "is not text"),
        ("a: *b", r"there is no '&b'"),
        ("a: 2001-01-01", "'2001-01-01' is not read"),
        (f"a: {'9' * 400}", "the number 9{37}... is too large"),
        ("a: 9223372036854775808", "is too large"),
        ("a: -1e999", "the number -1e999 is too large"),
        ("a: .nan", "'.nan' is not a finite number"),
        ("a: \0", r"U\+0000 in its line 1"),
        ("a: b\nc: \x1b[31m", r"U\+001B in its line 2"),
        ("a: \x9b", r"U\+009B"),
        ("a: \u2028", r"U\+2028"),
        ("a: 1\n\ufeff b: 2", r"U\+FEFF in its line 2"),
        ("a: \udc80", r"U\+DC80"),
        ('a: "\\e[31m"', r"U\+001B"),
        ('a: "\\0"', r"U\+0000"),
        ('a: "\\ud800"', r"U\+D800|escape"),
        (b"a: \xff", "it is not UTF-8: byte 3 is 0xff"),
        ("a: [", "line [12]: .*flow"),
        ("\t- a", "line 1: there is a tab where only spaces may stand"),
        ("a:\r\n\tb: 1", "line 2: there is a tab where only spaces may stand"),
        ("é: [é, @x]", "line 1: no value begins with '@'; put it in quotes if it is text"),
    ],
)
def test_what_settings_do_not_need_is_refused(text: str | bytes, sentence: str) -> None:
    with pytest.raises(YamlError, match=sentence):
        parse_yaml(text)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *[(word, None) for word in ("", "~", "null", "NULL")],
        *[("true", True), ("False", False), ("0", 0), ("-7", -7), ("9223372036854775807", 2**63 - 1)],
        *[("1e-3", 0.001), ("1E5", 1e5), ("1.", 1.0), (".5", 0.5), ("-0.0", 0.0), ("+2.5", 2.5)],
        *[(word, word) for word in ("1.2.3", "y", "N", "nan", "inf", "=", "2024-01-01-run", "0xg", "1:99", "a b")],
        *[(f"'{word}'", word) for word in ("010", "1e-3", "yes", "null", "<<", "2024-01-01")],
    ],
)
def test_plain_words_are_what_a_person_reads(word: str, value: object) -> None:
    found = parse_yaml(f"a: {word}")["a"]
    assert (found, type(found)) == (value, type(value))


def test_names_and_merges_count_as_what_they_stand_for() -> None:
    text = "one: &one {a: [1], b: 2}\ntwo: {<<: [*one, {b: 3, c: 4}], a: *one}\n"
    found = parse_yaml(text)
    assert found == yaml.safe_load(text)
    assert found["two"] == {"b": 2, "c": 4, "a": {"a": [1], "b": 2}}
    assert found["two"]["a"] is not found["one"]


def test_what_is_written_is_read_as_it_was_meant_by_us_and_by_others() -> None:
    words = [*"~#&*!%@`|>-?:,[]{}", "", "010", "1e-3", "1_0", "+5", "1:30", "yes", "No", "2020-01-01", ".inf", "<<"]
    words += ["true", "null", "=", "a: b", "a #b", " a ", "\n", "a\tb", "é", "\u202e", "0o7", "1.", ".5"]
    value = {"words": words, "<<": 1, "yes": [1e-5, 1e22, -0.0, 0.1, 2**62, -3, True, None], "same": [words, words]}
    written = dump_yaml(value)
    assert repr(parse_yaml(written)) == repr(yaml.safe_load(written)) == repr(value)
    assert "&" not in written.replace("'&'", "")
