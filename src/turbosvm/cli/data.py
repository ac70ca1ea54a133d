"""`turbosvm data`: make the built-in data, see what is there, look at data."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from turbosvm.data.federated import FederatedData
    from turbosvm.data.manifest import Manifest
    from turbosvm.data.summary import Summary

app = typer.Typer(help="Make the built-in data, see what is there, and look at data.", no_args_is_help=True)

WHICH = "'glyphs', the name of a prepared data set, or the path of a data folder."
FEW_CLASSES = 10
MANY_CLASSES = 160
BAR = 40
UNKNOWN = "-"
COLUMNS = ("name", "task", "users", "samples", "on disk", "when", "made from")


@app.command("make")
def make(
    users: Annotated[int, typer.Option(help="Number of writers; FEMNIST has 3550.")] = 200,
    samples_per_user: Annotated[float, typer.Option(help="Mean samples of a writer; FEMNIST has 226.8.")] = 100.0,
    heterogeneity: Annotated[float, typer.Option(help="How much writers differ, 0 to 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Another seed gives other writers.")] = 0,
) -> None:
    """Make the built-in glyphs ahead of a run, and say where they are."""
    from rich.console import Console

    from turbosvm.cli.progress import making
    from turbosvm.cli.terminal import say
    from turbosvm.data import glyphs

    console = Console()
    options = glyphs.GlyphOptions(users, samples_per_user, heterogeneity, seed)
    began = perf_counter()
    with making("glyphs", console) as on_progress:
        data = glyphs.load(options, on_progress)
    say(
        f"{len(data.users)} writers, {len(data.labels):,} images, ready after {perf_counter() - began:.1f} s: "
        f"{glyphs.cached_at(options)}",
        console,
    )


@app.command("list")
def list_prepared() -> None:
    """List the data sets that are ready on this machine."""
    import pandas as pd
    from rich.console import Console

    from turbosvm.cli.terminal import print_table, say
    from turbosvm.data import store

    console = Console()
    root = store.cache_folder()
    unfinished = sorted(path for path in root.glob(".*.part") if path.is_dir())
    rows = [*map(_row, store.prepared()), *map(_unfinished_row, unfinished)]
    if not rows:
        say(
            f"Nothing is prepared in '{root}' yet; 'turbosvm data make' makes the built-in glyphs, "
            "'turbosvm data prepare' reads files of FEMNIST, CelebA, Shakespeare or your own.",
            console,
        )
        return
    table = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object).fillna(UNKNOWN)
    print_table(_numbers_to_the_right(_as_plain_text(table), ["users", "samples", "on disk"]), console)
    say(f"In {root}", console)


@app.command("info")
def info(
    name: Annotated[str, typer.Argument(help=WHICH)],
    picture: Annotated[
        Path | None, typer.Option(help="Also draw how many users have how many samples into this file (PNG).")
    ] = None,
) -> None:
    """Describe a data set: where it is from, its figures beside the published ones, its split, classes and users."""
    from rich.console import Console

    from turbosvm.cli.terminal import say
    from turbosvm.data import histogram, store
    from turbosvm.data.summary import summarise
    from turbosvm.report.curves import save_figure

    console = Console()
    folder, data = _open(name, console)
    about, summary = store.read_manifest(folder).about, summarise(data)
    for key, value in _facts(folder, data, about).items():
        say(f"{key:<9}  {value}", console)
    _print_figures(summary, data.task, console)
    say(f"Split: {_split(data)}", console)
    say("", console)
    for line in _class_lines(data, summary, _is_plain(console)):
        say(line, console)
    say("", console)
    say("Samples per user, and how many users have as many", console)
    bars = histogram.histogram(data.counts)
    blocks = histogram.PLAIN_BLOCKS if _is_plain(console) else histogram.BLOCKS
    for line in histogram.lines(bars, BAR, blocks):
        say(f"  {line}", console)
    if picture is not None:
        save_figure(histogram.draw(bars, data.counts, data.name), picture)
        say("", console)
        say(f"Picture: {picture}", console)


@app.command("sheet")
def sheet(
    out: Annotated[Path, typer.Argument(help="The picture to write (PNG).")],
    data: Annotated[str, typer.Option("--data", "-d", help=WHICH)] = "glyphs",
) -> None:
    """Draw a contact sheet of images or text: what the classes look like, and how users differ."""
    from rich.console import Console

    from turbosvm.cli.terminal import say
    from turbosvm.data import contact_sheet
    from turbosvm.experiment.build import build_data
    from turbosvm.experiment.config import DataConfig

    contact_sheet.save(out, build_data(DataConfig(name=data)))
    say(f"Contact sheet: {out}", Console())


def _open(name: str, console: "Console") -> "tuple[Path, FederatedData]":
    """Open (or, for glyphs, make) the data that is meant; return also where it is."""
    from turbosvm.cli.progress import making
    from turbosvm.data import glyphs, store
    from turbosvm.experiment.build import build_data
    from turbosvm.experiment.config import DataConfig

    if name == "glyphs":
        with making(name, console) as on_progress:
            data = build_data(DataConfig(name=name), on_progress)
        return glyphs.cached_at(glyphs.GlyphOptions()), data
    folder = store.find_folder(name)
    if folder is None:
        raise store.no_such_set(name)
    return folder, store.load(folder)


def _facts(folder: Path, data: "FederatedData", about: Mapping[str, Any]) -> dict[str, str]:
    """What is known of a data set besides its figures."""
    from turbosvm.data.windows import Windows

    kind = f"{data.inputs.dtype} of shape {list(data.inputs.shape[1:])}"
    if isinstance(data.inputs, Windows):
        kind += f", windows over {len(data.inputs.text):,} characters of text"
    elif data.tokens:
        kind += ", tokens"
    facts = {
        "name": data.name,
        "folder": str(folder),
        "made from": _origin(about),
        "left out": _left_out(about),
        "digest": (data.digest or "")[:12],
        "inputs": kind,
    }
    return {key: value for key, value in facts.items() if value}


def _origin(about: Mapping[str, Any]) -> str:
    """Say what a data set was made from, as far as its manifest tells."""
    source, made_by = about.get("source"), about.get("made_by")
    if isinstance(source, Mapping):
        return ", ".join(str(source[key]) for key in ("kind", "path") if source.get(key))
    return _in_words(source or made_by)


def _kind(about: Mapping[str, Any]) -> str:
    """Say in short what a data set was made from."""
    source = about.get("source")
    return str(source["kind"]) if isinstance(source, Mapping) and source.get("kind") else _origin(about)


def _left_out(about: Mapping[str, Any]) -> str:
    """Say what of the source is not in a data set: bad samples, with the first of them, and small users."""
    bad, small = about.get("left_out"), about.get("small_users")
    parts = []
    if isinstance(bad, Mapping) and isinstance(bad.get("count"), int):
        first = f", such as: {bad['first'][0]}" if bad.get("first") else ""
        parts += [f"{bad['count']:,} bad{first}"] if bad["count"] else []
    elif bad:
        parts.append(_in_words(bad))
    if isinstance(small, int) and small:
        parts.append(f"{small:,} users with too few samples")
    return "; ".join(reversed(parts))


def _in_words(value: Any) -> str:
    """Say in a line what a manifest holds under some key; nothing gives nothing."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_in_words(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_in_words, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def _print_figures(summary: "Summary", task: Any, console: "Console") -> None:
    from dataclasses import asdict

    import pandas as pd

    from turbosvm.cli.terminal import print_table
    from turbosvm.data.summary import PUBLISHED, rows

    known = task if isinstance(task, str) and task in PUBLISHED else None
    table = pd.DataFrame(map(asdict, rows(summary, known))).rename(columns={"figure": "", "leaf": "LEAF"})
    shown = table if known else table[["", "here"]]
    print_table(_numbers_to_the_right(shown, list(shown.columns[1:])), console)


def _split(data: "FederatedData") -> str:
    """Say who trains and who is held out, at the default settings."""
    from turbosvm.data.split import split_users
    from turbosvm.errors import TurboSVMError
    from turbosvm.experiment.config import DataConfig

    usual = DataConfig()
    try:
        split = split_users(data, usual.held_out, usual.min_samples, usual.split_seed)
    except TurboSVMError as error:
        return f"none. {error}"
    usual_way = f"by a hash of users' names, at the defaults ({usual.held_out:.0%} held out, seed {usual.split_seed})"
    samples = [int(data.counts[list(side)].sum()) for side in (split.train, split.held_out)]
    return (
        f"{usual_way if data.held_out is None else 'its own'}: {len(split.train):,} users train "
        f"({samples[0]:,} samples), {len(split.held_out):,} held out ({samples[1]:,} samples)."
    )


def _class_lines(data: "FederatedData", summary: "Summary", plain: bool) -> list[str]:
    """Show how samples spread over classes: each class where they are few, the extremes and pillars where not."""
    from turbosvm.data import histogram
    from turbosvm.data.text_sheet import sign

    counts, total = summary.class_counts, max(summary.samples, 1)
    if not len(counts):
        return ["Classes: none"]
    if len(counts) <= FEW_CLASSES:
        longest, blocks = max(map(len, data.classes)), histogram.PLAIN_BLOCKS if plain else histogram.BLOCKS
        return [
            "Classes",
            *(
                f"  {name:<{longest}}  {count / total:6.1%} "
                f"{histogram.bar(count / max(counts.max(), 1), BAR, blocks)} {count:,}"
                for name, count in zip(data.classes, counts.tolist(), strict=True)
            ),
        ]
    most, fewest = int(counts.argmax()), int(counts.argmin())
    absent = int((counts == 0).sum())
    ends = [f"{data.classes[k]!r} {counts[k] / total:.2%} ({counts[k]:,})" for k in (most, fewest)]
    first = f"Classes: most {ends[0]}, fewest {ends[1]}" + (f", {absent} without samples" if absent else "")
    if len(counts) > MANY_CLASSES:
        return [first]
    pillars = histogram.pillars(counts, histogram.PLAIN_PILLARS if plain else histogram.PILLARS)
    signs = "".join(map(sign, data.classes))
    named = not plain and all(len(name) == 1 for name in data.classes)
    return [first, f"  {pillars}", *([f"  {signs}"] if named else [])]


def _row(folder: Path) -> dict[str, str]:
    """One line of the list of what is ready; a folder that is broken says so."""
    from turbosvm.data import store
    from turbosvm.data.manifest import MANIFEST
    from turbosvm.errors import TurboSVMError

    row = {"name": folder.name}
    try:
        manifest = store.read_manifest(folder)
    except TurboSVMError:
        return row | {"made from": f"broken: {MANIFEST} cannot be read"}
    row |= {"task": _task(manifest), "users": f"{len(manifest.users):,}"}
    missing = [name for name in manifest.hashes if not (folder / name).is_file()]
    if missing:
        return row | {"made from": f"broken: {missing[0]} is missing"}
    try:
        row |= {"samples": f"{_length(folder / 'labels.npy'):,}"}
        row |= {"on disk": _size(folder), "when": _when(folder / MANIFEST)}
    except Exception:  # NumPy meets broken headers with errors of many kinds
        return row | {"made from": "broken: labels.npy cannot be read"}
    return row | {"made from": _kind(manifest.about) or UNKNOWN}


def _unfinished_row(folder: Path) -> dict[str, str]:
    name = folder.name.removeprefix(".").removesuffix(".part")
    return {"name": name, "on disk": _size(folder), "when": _when(folder), "made from": "unfinished"}


def _task(manifest: "Manifest") -> str:
    made_by = manifest.about.get("made_by")
    glyphs = isinstance(made_by, Mapping) and "glyphs" in made_by
    return str(manifest.task or ("glyphs" if glyphs else UNKNOWN))


def _length(array: Path) -> int:
    """Read from a saved array's header how long it is."""
    import numpy as np

    return len(np.lib.format.open_memmap(array, mode="r"))


def _size(folder: Path) -> str:
    """Say how much room a folder's files take."""
    size = float(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def _when(path: Path) -> str:
    return f"{datetime.fromtimestamp(path.stat().st_mtime):%Y-%m-%d %H:%M}"


def _as_plain_text(table: "pd.DataFrame") -> "pd.DataFrame":
    """Keep square brackets in names from being taken for markup."""
    from rich.markup import escape

    return table.map(escape)


def _numbers_to_the_right(table: "pd.DataFrame", columns: list[str]) -> "pd.DataFrame":
    """Fill columns of numbers up from the left, also where some cells have no number."""
    table = table.copy()
    for column in columns:
        width = max(len(column), *map(len, table[column]))
        table[column] = table[column].str.rjust(width)
        table = table.rename(columns={column: column.rjust(width)})
    return table


def _is_plain(console: "Console") -> bool:
    """Whether the terminal cannot show block characters."""
    return not console.encoding.startswith("utf")
