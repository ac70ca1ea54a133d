"""Tables of one's own: Parquet, CSV and npz, with columns for input, label and user."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.sources import makers
from turbosvm.data import store
from turbosvm.data.federated import FederatedData
from turbosvm.data.partition import Partition
from turbosvm.data.preparation.ordering import classes_of
from turbosvm.data.preparation.prepare import Rules, prepare
from turbosvm.data.sources import tables
from turbosvm.data.sources.request import Columns, Request
from turbosvm.errors import TurboSVMError

RNG = np.random.default_rng(0)
USERS = ["bob", "ann", "bob", "eve", "ann", "bob"]
LABELS = ["cat", "dog", "dog", "cat", "ant", "dog"]
FEATURES = RNG.normal(size=(6, 3)).astype(np.float32)


def prepared(place: Path, columns: Columns = Columns(), **options: Any) -> FederatedData:  # noqa: B008
    out = place.parent / f"out-{place.name}"
    prepare(Request("own", str(place), columns=columns, **options), out)
    return store.load(out)


def rows_of(data: FederatedData) -> dict[str, list[tuple[list[Any], str]]]:
    """What each user has, labels by their names."""
    return {
        user: [(np.asarray(x).tolist(), data.classes[y]) for x, y in zip(*data.user(place), strict=True)]
        for place, user in enumerate(data.users)
    }


EXPECTED = {
    user: [(FEATURES[place].tolist(), LABELS[place]) for place in range(6) if USERS[place] == user]
    for user in ("ann", "bob", "eve")
}


def test_a_csv_with_a_column_for_each_number(tmp_path: Path) -> None:
    lines = [
        f"{user},{','.join(map(repr, row.tolist()))},{label}"
        for user, row, label in zip(USERS, FEATURES, LABELS, strict=True)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["who,a,b,c,animal", *lines]) + "\n")
    data = prepared(tmp_path / "a.csv", Columns(label="animal", user="who"))
    assert data.classes == ("ant", "cat", "dog")
    assert data.inputs.dtype == np.float32
    assert rows_of(data) == EXPECTED


def test_only_the_columns_that_are_named(tmp_path: Path) -> None:
    table = pa.table(
        {"user": USERS, "label": [1, 0, 2, 1, 2, 2], "a": FEATURES[:, 0], "b": FEATURES[:, 1], "id": LABELS}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    data = prepared(tmp_path / "a.parquet", Columns(("b", "a")))
    assert data.classes == ("0", "1", "2")
    assert np.array_equal(data.user(2)[0], FEATURES[3:4, [1, 0]])


def test_a_parquet_with_lists(tmp_path: Path) -> None:
    table = pa.table({"user": USERS, "label": LABELS, "x": FEATURES.reshape(6, 3, 1).tolist()})
    pq.write_table(table, tmp_path / "a.parquet")
    data = prepared(tmp_path / "a.parquet")
    assert data.inputs.shape == (6, 3, 1)
    assert [[x[0] for x in row] for row, _ in rows_of(data)["ann"]] == [row for row, _ in EXPECTED["ann"]]


def test_a_parquet_with_images(tmp_path: Path) -> None:
    images = [RNG.integers(0, 256, (5, 4, 3), dtype=np.uint8) for _ in USERS]
    contents = pa.array([makers.encoded(image) for image in images])
    pq.write_table(pa.table({"user": USERS, "label": LABELS, "image": contents}), tmp_path / "a.parquet")
    data = prepared(tmp_path / "a.parquet")
    assert data.inputs.shape == (6, 3, 5, 4)
    assert data.inputs.dtype == np.uint8
    assert np.array_equal(data.user(0)[0][1], images[4].transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("kind", "stored"), [("uint8", "uint8"), ("int32", "float32"), ("float64", "float32"), ("float16", "float32")]
)
def test_an_npz_with_arrays(kind: str, stored: str, tmp_path: Path) -> None:
    x = np.arange(12).reshape(6, 2).astype(kind)
    np.savez(tmp_path / "a.npz", x=x, y=np.array([0, 1, 0, 3, 1, 0]), w=np.array([7, 3, 7, 10, 3, 7]))
    data = prepared(tmp_path / "a.npz", Columns(("x",), "y", "w"))
    assert data.inputs.dtype == stored
    assert data.users == ("10", "3", "7")
    assert data.classes == ("0", "1", "3")
    assert rows_of(data)["3"] == [([2, 3], "1"), ([8, 9], "1")]


def test_several_files_are_one_set_and_their_order_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for place, (user, row, label) in enumerate(zip(USERS, FEATURES, LABELS, strict=True)):
        np.savez(tmp_path / "many" / f"{place}.npz", x=row[None], label=np.array([label]), user=np.array([user]))
    assert rows_of(prepared(tmp_path / "many")) == EXPECTED


def test_the_number_of_classes_can_be_given(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=FEATURES, label=np.array([0, 1, 0, 3, 1, 0]), user=np.array(USERS))
    data = prepared(tmp_path / "a.npz", classes=10)
    assert data.classes == tuple(map(str, range(10)))
    assert data.user(2)[1].tolist() == [3]
    with pytest.raises(TurboSVMError, match=r"a.npz, row 4: user 'eve' has the label '3'; it must be from 0 to 2"):
        prepare(Request("own", str(tmp_path / "a.npz"), classes=3), tmp_path / "other")


def test_inputs_of_another_form_than_the_first_are_bad(tmp_path: Path) -> None:
    table = pa.table(
        {"user": USERS, "label": LABELS, "x": [[0.5, 1.0], [1.0], [2.0, 3.0], None, [1.0, float("nan")], [0.0, 1.0]]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    done = prepare(Request("own", str(tmp_path / "a.parquet")), tmp_path / "out", Rules(skip_bad=True))
    assert sorted(done.left_out.first) == [
        "a.parquet, row 2: user 'ann' has an input of shape [1] and kind float32, not [2] and float32.",
        "a.parquet, row 4: user 'eve' has no input.",
        "a.parquet, row 5: user 'ann' has an input that is not made of finite numbers.",
    ]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (Columns(user="who"), "Unknown column 'who' of a.csv; allowed: label, user, x."),
        (Columns(label="y"), "Unknown column 'y' of a.csv; allowed: label, user, x."),
        (Columns(("z",)), "Unknown column 'z' of a.csv"),
    ],
)
def test_columns_that_are_not_there(columns: Columns, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,label,x\nann,0,1\n")
    with pytest.raises(TurboSVMError, match=sentence):
        prepare(Request("own", str(tmp_path / "a.csv"), columns=columns), tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("user,label\nann,0\n", "a.csv has no column left for the inputs"),
        ("user,label,x\n", "a.csv has no rows"),
        ("user,label,x\nann,0,one\n", "a.csv has no good rows: the first has no number in column 'x'"),
    ],
)
def test_tables_without_inputs(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(TurboSVMError, match=sentence):
        prepare(Request("own", str(tmp_path / "a.csv")), tmp_path / "out")


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}] * 2, dtype=object), label=[0, 1], user=["a", "b"])
    with pytest.raises(TurboSVMError, match=r"a\.npz' cannot be read as npz"):
        prepare(Request("own", str(tmp_path / "a.npz")), tmp_path / "out")


def test_numbers_that_do_not_fit_are_bad_not_changed(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([[1.0], [1e300]]), label=[0, 1], user=["a", "b"])
    with pytest.raises(TurboSVMError, match=r"row 2: user 'b' has an input that is not made of finite numbers"):
        prepare(Request("own", str(tmp_path / "a.npz")), tmp_path / "out")


def test_tokens_stay_whole_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([[1, 2**40], [3, 4]]), label=[0, 1], user=["a", "b"])
    data = prepared(tmp_path / "a.npz", tokens=True)
    assert data.tokens
    assert data.inputs.dtype == np.int64
    assert data.user(0)[0].tolist() == [[1, 2**40]]
    for place, wrong in enumerate((np.array([[1.5]]), np.array([[-1]]), np.array([[2**64 - 1]], dtype=np.uint64))):
        np.savez(tmp_path / f"{place}.npz", x=wrong, label=[0], user=["a"])
        with pytest.raises(TurboSVMError, match="not made of tokens"):
            prepare(Request("own", str(tmp_path / f"{place}.npz"), tokens=True), tmp_path / "out")


def test_large_tokens_in_plain_columns_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,label,x\nann,0,16777217\n")
    assert prepared(tmp_path / "a.csv", tokens=True).user(0)[0].tolist() == [[16777217]]


def test_nulls_are_not_false(tmp_path: Path) -> None:
    table = pa.table({"user": USERS, "label": LABELS, "x": [None, [True, None], *[[True, False]] * 4]})
    pq.write_table(table, tmp_path / "a.parquet")
    done = prepare(Request("own", str(tmp_path / "a.parquet")), tmp_path / "out", Rules(skip_bad=True))
    assert sorted(done.left_out.first) == [
        "a.parquet, row 1: user 'bob' has no input.",
        "a.parquet, row 2: user 'ann' has an input that is not made of numbers.",
    ]


def test_a_column_of_users_is_no_input_where_users_are_made_up(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,label,x\n" + "7,0,1\n" * 6)
    request = Request("own", str(tmp_path / "a.csv"), columns=Columns(user="who"))
    prepare(request, tmp_path / "out", Rules(partition=Partition("iid", users=2)))
    assert store.load(tmp_path / "out").inputs.shape == (6, 1)


def test_large_images_are_read_a_few_at_a_time() -> None:
    assert tables.rows_at_once(784) == 8192
    assert tables.rows_at_once(3 * 1000 * 1000) == 22
    assert tables.rows_at_once(10**9) == 16


def test_an_interrupt_inside_arrow_is_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Row:
        @property
        def actual_columns(self) -> int:
            raise KeyboardInterrupt

    bad = tables.BadRows()
    with pytest.raises(KeyboardInterrupt):
        bad.raise_interrupts(lambda: bad.skip(Row()))


def test_lists_of_bytes_in_parquet_are_pixels(tmp_path: Path) -> None:
    pixels = pa.array([[[0, 255], [1, 2]]] * 6, pa.list_(pa.list_(pa.uint8())))
    pq.write_table(pa.table({"user": USERS, "label": LABELS, "x": pixels}), tmp_path / "a.parquet")
    data = prepared(tmp_path / "a.parquet")
    assert data.inputs.dtype == np.uint8
    assert data.inputs.shape == (6, 2, 2)


def test_grey_and_colour_are_not_mixed(tmp_path: Path) -> None:
    images = [makers.encoded(np.full((4, 4, 3) if place == 2 else (4, 4), 7, dtype=np.uint8)) for place in range(6)]
    pq.write_table(pa.table({"user": USERS, "label": LABELS, "x": images}), tmp_path / "a.parquet")
    with pytest.raises(TurboSVMError, match=r"row 3: user 'bob' has an input of shape \[3, 4, 4\]"):
        prepare(Request("own", str(tmp_path / "a.parquet")), tmp_path / "out")


def test_what_can_be_seen_through_lies_on_white(tmp_path: Path) -> None:
    clear = np.zeros((4, 4, 4), dtype=np.uint8)
    pq.write_table(pa.table({"user": ["a"], "label": [0], "x": [makers.encoded(clear)]}), tmp_path / "a.parquet")
    assert (np.asarray(prepared(tmp_path / "a.parquet").inputs) == 255).all()


def test_bad_rows_far_into_a_csv_are_named_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow parses ahead: rows of later blocks are met before those of the batch at hand are handed over."""
    monkeypatch.setattr(tables, "CSV_BLOCK", 1000)
    lines = [f"u{place % 3},{place % 2},{place}" for place in range(1, 501)]
    for row in (3, 200, 201, 500):
        lines[row - 1] += ",more"
    lines[299] = "u0,1,word"
    (tmp_path / "a.csv").write_text("\n".join(["user,label,x", *lines]))
    done = prepare(Request("own", str(tmp_path / "a.csv")), tmp_path / "out", Rules(skip_bad=True))
    assert set(done.left_out.first) == {
        "a.csv, row 200: has 4 columns, not 3.",
        "a.csv, row 201: has 4 columns, not 3.",
        "a.csv, row 300: user 'u0' has no number in column 'x'.",
        "a.csv, row 3: has 4 columns, not 3.",
        "a.csv, row 500: has 4 columns, not 3.",
    }
    assert sum(len(data) for data in rows_of(store.load(tmp_path / "out")).values()) == 495


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,a,label,user\n1,2,0,ann\n")
    with pytest.raises(TurboSVMError, match="two columns are called 'a'"):
        prepare(Request("own", str(tmp_path / "a.csv")), tmp_path / "out")


def test_a_csv_that_is_not_utf8_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,label,user\n1,x,u\n2,\xff,y,u\n")
    with pytest.raises(TurboSVMError, match=r"a\.csv' cannot be read as csv"):
        prepare(Request("own", str(tmp_path / "a.csv")), tmp_path / "out")
    assert capfd.readouterr().err == ""


def test_classes_have_one_order_whatever_the_labels_look_like() -> None:
    assert classes_of(["b", "10", "03", "9", "a", "3", "003", "-1"]) == ("-1", "003", "03", "3", "9", "10", "a", "b")
