import hashlib
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from turbosvm.data import glyph_faces, glyph_styles, glyphs
from turbosvm.data.federated import FederatedData
from turbosvm.data.glyph_drawing import SIDE, bend
from turbosvm.data.glyph_styles import NODES, POPULATION_WEIGHTS, Stream, count_at, draw_labels, draw_own
from turbosvm.data.glyphs import CHARACTERS, GlyphOptions, load, sample_count, writer
from turbosvm.errors import TurboSVMError
from turbosvm.files import remove

SMALL = GlyphOptions(users=20, samples_per_user=8)


@pytest.fixture(scope="module", autouse=True)
def atlas_made_outside_the_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make the faces once for all tests here, in a temporary cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURBOSVM_CACHE", str(tmp_path_factory.mktemp("faces")))
        glyph_faces.atlas()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def labels_of(user: int, heterogeneity: float, count: int) -> npt.NDArray[np.uint8]:
    """A writer's labels, without drawing any image."""
    stream = Stream(0, user)
    return draw_labels(stream, draw_own(stream, count, heterogeneity))


def shares(labels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    return np.bincount(labels, minlength=62) / len(labels)


# One writer


def test_the_characters_are_digits_capitals_and_small_letters() -> None:
    assert len(CHARACTERS) == 62
    assert (CHARACTERS[0], CHARACTERS[9], CHARACTERS[10], CHARACTERS[36], CHARACTERS[61]) == tuple("09Aaz")


def test_a_writer_is_a_function_of_seed_and_user() -> None:
    images, labels = writer(SMALL, 17)
    again, labels_again = writer(SMALL, 17)
    assert images.shape == (len(labels), 28, 28)
    assert images.dtype == labels.dtype == np.uint8
    assert np.array_equal(images, again)
    assert np.array_equal(labels, labels_again)
    for other in (writer(SMALL, 18), writer(GlyphOptions(users=20, samples_per_user=8, seed=1), 17)):
        assert other[0].shape != images.shape or not np.array_equal(other[0], images)


def test_a_writer_does_not_depend_on_the_number_of_users() -> None:
    few, many = GlyphOptions(users=18, samples_per_user=8), GlyphOptions(users=20, samples_per_user=8)
    alone, labels = writer(GlyphOptions(users=1, samples_per_user=8), 17)
    for data in (load(few), load(many)):
        inside, inside_labels = data.user(17)
        assert np.array_equal(inside[:, 0], alone)
        assert np.array_equal(inside_labels, labels)


def test_pixels_and_labels_are_the_same_on_every_machine() -> None:
    digest = hashlib.sha256()
    for user, heterogeneity in itertools.product((0, 17, 3549), (0.0, 0.5, 1.0)):
        images, labels = writer(GlyphOptions(samples_per_user=40, heterogeneity=heterogeneity), user)
        digest.update(labels.tobytes() + images.tobytes())
    assert digest.hexdigest() == "7337d7dd7449582384df6c244f6f8e423517ec57b50c2ac9e9ec57a9ae4336a5"


def test_paper_is_white_and_ink_is_black_inside_the_frame() -> None:
    images = np.concatenate([writer(SMALL, user)[0] for user in range(60)])
    assert np.median(images) > 235
    darkest = images.min(axis=(1, 2))
    assert darkest.max() < 90
    inked = (images < 128).mean(axis=(1, 2))
    assert 0.08 < inked.mean() < 0.22
    assert inked.min() > 0.01
    assert inked.max() < 0.5
    border = np.concatenate([images[:, [0, -1]].reshape(-1), images[:, :, [0, -1]].reshape(-1)])
    assert (border < 128).mean() < 0.01


def test_a_writers_own_samples_of_a_class_are_more_alike_than_those_of_strangers() -> None:
    def typical_distance(heterogeneity: float) -> float:
        distances = []
        for user in range(12):
            images, labels = writer(GlyphOptions(samples_per_user=80, heterogeneity=heterogeneity), user)
            for label in range(10):
                of_class = images[labels == label].astype(np.float64)
                distances += [np.abs(a - b).mean() for a, b in itertools.pairwise(of_class)]
        return float(np.mean(distances))

    assert typical_distance(1.0) < 0.7 * typical_distance(0.0)


def test_a_constant_bend_moves_all_pixels_by_it_and_a_bend_is_smooth() -> None:
    constant = np.full((1, NODES, NODES), 1.5, dtype=np.float32)
    assert np.allclose(bend(constant), 1.5, atol=1e-6)
    slope = np.broadcast_to(np.arange(NODES, dtype=np.float32), (1, NODES, NODES))
    steps = np.diff(bend(slope)[0], axis=1)
    assert np.allclose(steps, (NODES - 2) / SIDE, atol=1e-5)


# Counts and labels


@pytest.mark.parametrize(("mean", "std"), [(226.8, 88.9), (50.0, 50.0 * 88.9 / 226.8)])
def test_counts_are_lognormal_like_those_of_femnist(mean: float, std: float) -> None:
    counts = np.array([count_at((k + 0.5) / 20_000, mean) for k in range(20_000)])
    assert counts.mean() == pytest.approx(mean, abs=0.1)
    assert counts.std() == pytest.approx(std, abs=0.2)
    assert np.median(counts) == pytest.approx(mean / (1 + (std / mean) ** 2) ** 0.5, abs=1)


def test_writers_counts_follow_that_distribution() -> None:
    seeds = range(4)
    counts = [
        sample_count(GlyphOptions(samples_per_user=226.8, seed=seed), user) for seed in seeds for user in range(3550)
    ]
    standard_error = 88.9 / len(counts) ** 0.5
    assert np.mean(counts) == pytest.approx(226.8, abs=4 * standard_error)
    assert np.std(counts) == pytest.approx(88.9, rel=0.04)


def test_no_writer_is_without_samples() -> None:
    assert min(sample_count(GlyphOptions(samples_per_user=1), user) for user in range(500)) == 1


@pytest.mark.parametrize("heterogeneity", [0.0, 0.5, 1.0])
def test_heterogeneity_keeps_the_labels_of_the_population(heterogeneity: float) -> None:
    labels = np.concatenate([labels_of(user, heterogeneity, 200) for user in range(600)])
    found = shares(labels)
    assert found[:10].sum() == pytest.approx(0.5, abs=0.02)
    assert found[10:36].sum() == pytest.approx(0.25, abs=0.02)
    expected = np.array(POPULATION_WEIGHTS) / sum(POPULATION_WEIGHTS)
    assert np.abs(found / expected - 1).max() < 0.2


def test_heterogeneity_sets_writers_apart_by_their_labels() -> None:
    def spread(heterogeneity: float) -> float:
        return float(np.std([shares(labels_of(user, heterogeneity, 2000)) for user in range(40)], axis=0).mean())

    iid, half, by_writer = (spread(h) for h in (0.0, 0.5, 1.0))
    assert by_writer > 4 * iid
    assert iid < half < by_writer


def test_heterogeneity_is_the_share_of_own_samples() -> None:
    assert not draw_own(Stream(0, 1), 1000, 0.0).any()
    assert draw_own(Stream(0, 1), 1000, 1.0).all()
    assert draw_own(Stream(0, 1), 4000, 0.3).mean() == pytest.approx(0.3, abs=0.03)


# The data set


def test_load_gives_named_writers_and_a_channel_axis(cache: Path) -> None:
    data = load(SMALL)
    assert data.inputs.shape == (sum(sample_count(SMALL, user) for user in range(20)), 1, 28, 28)
    assert data.inputs.dtype == data.labels.dtype == np.uint8
    assert data.classes == tuple(CHARACTERS)
    assert (data.users[0], data.users[17]) == ("writer-00000", "writer-00017")
    assert isinstance(data.inputs, np.memmap)
    assert Path(str(data.inputs.filename)).is_relative_to(cache)


def test_a_second_load_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(SMALL)

    def refuse(options: GlyphOptions, user: int) -> None:
        raise AssertionError("drawn again")

    monkeypatch.setattr(glyphs, "writer", refuse)
    second = load(GlyphOptions(users=20, samples_per_user=8.0))
    assert np.array_equal(first.inputs, second.inputs)
    with pytest.raises(AssertionError, match="drawn again"):
        load(GlyphOptions(users=20, samples_per_user=8, seed=1))


def test_a_failure_in_the_middle_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_at_user_7(options: GlyphOptions, user: int) -> tuple[glyphs.Images, glyphs.Labels]:
        if user == 7:
            raise RuntimeError("power cut")
        return writer(options, user)

    with monkeypatch.context() as patch:
        patch.setattr(glyphs, "writer", fail_at_user_7)
        with pytest.raises(RuntimeError, match="power cut"):
            load(SMALL)
    assert not cache.exists() or list(cache.iterdir()) == []
    assert len(load(SMALL).users) == 20


@pytest.mark.parametrize("file", ["inputs.npy", "labels.npy", "offsets.npy", "manifest.json", ""])
@pytest.mark.parametrize("damage", ["changed", "removed", "a pipe"])
def test_a_damaged_set_is_told_of_and_made_again(file: str, damage: str, cache: Path) -> None:
    before = load(SMALL)
    expected = np.array(before.inputs)
    wrong = glyphs.cached_at(SMALL) / file
    content = wrong.read_bytes() if file else b""
    remove(wrong)
    if damage == "changed" or not file:
        wrong.write_bytes(content[:-9] + b"x" + content[-8:])
    elif damage == "a pipe":
        os.mkfifo(wrong)
    with pytest.warns(UserWarning, match=r"glyphs-v.* glyphs are made again\."):
        again = load(SMALL)
    assert np.array_equal(again.inputs, expected)
    assert again.digest == before.digest
    assert load(SMALL).digest == before.digest
    assert not [path.name for path in cache.iterdir() if path.name.endswith((".anew", ".aside"))]


@pytest.mark.parametrize("damaged", [True, False])
def test_where_nothing_can_be_written_nothing_is_made_and_the_damage_is_told_of(
    damaged: bool, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if damaged:
        load(SMALL)
        (glyphs.cached_at(SMALL) / "labels.npy").write_bytes(b"")
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(glyphs, "_make", lambda *_: pytest.fail("samples were made"))
    told = r"labels\.npy is damaged: .*, and it cannot be made again: " if damaged else "^"
    with pytest.raises(TurboSVMError, match=f"{told}Cannot write folder '{cache}': nothing can be written in"):
        load(SMALL)


def test_a_damaged_set_is_made_again_once_by_many(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load(SMALL).digest
    (glyphs.cached_at(SMALL) / "labels.npy").write_bytes(b"")
    made: list[int] = []
    make = glyphs._make

    def counted(*given: Any) -> FederatedData:
        made.append(1)
        return make(*given)

    monkeypatch.setattr(glyphs, "_make", counted)
    with pytest.warns(UserWarning, match="glyphs are made again"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: load(SMALL).digest, range(8)))
    assert set(found) == {expected}
    assert len(made) == 1


def test_progress_counts_up_to_all_writers() -> None:
    told: list[tuple[int, int]] = []
    load(SMALL, lambda done, of: told.append((done, of)))
    assert told == [(done, 20) for done in range(1, 21)]


def test_a_cache_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TURBOSVM_CACHE", str(tmp_path / "file"))
    with pytest.raises(TurboSVMError, match=r"Cannot write folder .*file"):
        load(GlyphOptions(users=1, samples_per_user=1))


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"users": 0}, "users of at least 1, not 0"),
        ({"samples_per_user": 0.5}, "samples_per_user from 1 to 1,000,000, not 0.5"),
        ({"samples_per_user": float("nan")}, "samples_per_user from 1 to 1,000,000, not nan"),
        ({"seed": -1}, "seed of at least 0, not -1"),
        ({"heterogeneity": 1.5}, "heterogeneity from 0 to 1, not 1.5"),
        ({"heterogeneity": -0.1}, "heterogeneity from 0 to 1, not -0.1"),
    ],
)
def test_options_out_of_range_are_refused(bad: dict[str, float], sentence: str) -> None:
    with pytest.raises(TurboSVMError, match=sentence):
        GlyphOptions(**bad)  # type: ignore[arg-type]


def test_no_two_streams_of_a_writer_share_numbers() -> None:
    stream = glyph_styles.Stream(0, 0)
    assert not set(stream.raw("style", 50).tolist()) & set(stream.raw("jitter", 50).tolist())
    assert stream.raw("style", 3).tolist() == stream.raw("style", 50)[:3].tolist()
