"""What reports leave in a folder: tables, the page, pictures."""

import re
from collections.abc import Sequence
from pathlib import Path

from turbosvm.errors import TurboSVMError
from turbosvm.files import write_atomically
from turbosvm.report.curves import draw_curves, save_both, save_figure
from turbosvm.report.groups import contests_of
from turbosvm.report.layout import ablations, tables_of
from turbosvm.report.markup import latex_table, markdown_table
from turbosvm.report.numbers import each_run, numbers_of
from turbosvm.report.page import page_of
from turbosvm.report.pictures import draw_ablation, draw_kind
from turbosvm.report.reading import Gathered
from turbosvm.report.records import RunRecords
from turbosvm.report.results import Results, check_request, results_of
from turbosvm.report.series import KINDS
from turbosvm.report.sheets import to_csv
from turbosvm.report.tables import markdown, summary

PAGE = "index.html"
TABLES = "tables.md"
PICTURES = "pictures"
BESIDE = "report"
"""The folder of a report that lies beside its runs."""


def save_report(runs: Sequence[RunRecords], root: Path) -> None:
    """Write what a comparison leaves beside its runs: table.md, table.csv, curves.png and the page."""
    table = summary(runs)
    write_atomically(root / "table.md", markdown(table))
    write_atomically(root / "table.csv", to_csv(table))
    save_figure(draw_curves(runs), root / "curves.png")
    evaluated = [run for run in runs if run.points]
    write_atomically(root / PAGE, page_of([results_of(contest) for contest in contests_of(evaluated)]))


def place_beside(root: Path) -> Path:
    """Where a report on the runs in a folder goes, whoever made that: never through a link into others' files."""
    out = root / BESIDE
    for place in (out, out / PICTURES):
        if place.is_symlink():
            raise TurboSVMError(f"'{place}' is a link; the report on the runs in '{root}' needs a folder of its own.")
    return out


def work_out(gathered: Gathered, at: int | None = None, baseline: str | None = None) -> list[Results]:
    """The results of all data sets, at a round and against a baseline if they are given."""
    contests = contests_of(gathered.runs)
    check_request(contests, at, baseline)
    return [results_of(contest, at, baseline) for contest in contests]


def write_report(many: Sequence[Results], notes: Sequence[str], out: Path) -> list[Path]:
    """Write tables.md, tables.tex, tables.csv, runs.csv, index.html and the folder pictures; return the files."""
    tables = [table for results in many for table in tables_of(results)]
    texts = {
        TABLES: "\n".join(map(markdown_table, tables)),
        "tables.tex": "% Needs \\usepackage{booktabs}.\n\n" + "\n".join(map(latex_table, tables)),
        "tables.csv": to_csv(numbers_of(many)),
        "runs.csv": to_csv(each_run(many)),
        PAGE: page_of(many, notes),
    }
    for name, text in texts.items():
        write_atomically(out / name, text)
    pictures = [
        path for results, name in zip(many, _file_names(many), strict=True) for path in _draw(results, out, name)
    ]
    return [*(out / name for name in texts), *pictures]


def _draw(results: Results, out: Path, name: str) -> list[Path]:
    """All pictures of a contest."""
    figures = {kind.name: draw_kind(results, kind) for kind in KINDS}
    for place, (algorithm, family) in enumerate(ablations(results), 1):
        figures["ablation" if place == 1 else f"ablation-{place}"] = draw_ablation(results, algorithm, family)
    paths = []
    for kind, figure in figures.items():
        if figure is not None:
            paths += save_both(figure, out / PICTURES / f"{name}-{kind}")
    return paths


def _file_names(many: Sequence[Results]) -> list[str]:
    """A plain name for the files of each contest, no two the same."""
    names: list[str] = []
    for results in many:
        plain = re.sub(r"[^\w.-]+", "-", results.contest.title).strip("-.")[:80] or "data"
        names.append(plain if plain not in names else f"{plain}-{len(names)}")
    return names
