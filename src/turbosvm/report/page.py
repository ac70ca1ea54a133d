"""The report as one web page that needs nothing else: tables, curves to explore, configs and environments."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from turbosvm.report.columns import Floats
from turbosvm.report.groups import Group
from turbosvm.report.layout import TITLES, ablation_tables, paired_table, paper_table, percent, results_table
from turbosvm.report.markup import escape_html, html_table
from turbosvm.report.paper import ROUNDS
from turbosvm.report.pictures import leading
from turbosvm.report.records import RunRecords
from turbosvm.report.results import Results
from turbosvm.report.series import KINDS, Line, lines_of, thinned
from turbosvm.version import __version__
from turbosvm.visible import visible
from turbosvm.yaml_text import dump_yaml

POINTS = 60_000
"""How many points a page may have before its lines are thinned."""
MOST_POINTS, LEAST_POINTS = 200, 20
MOST_NOTES = 12
HINT = (
    "Lines are means over seeds, shaded from the lowest to the highest. Point at a curve to read it, drag over a range "
    "to zoom in. With the keyboard: arrows read, + and - zoom, 0 shows all."
)
PAPER = "https://doi.org/10.1609/aaai.v38i14.29481"


def page_of(many: Sequence[Results], notes: Sequence[str] = ()) -> str:
    """The whole page; everything that comes from configs and records is escaped."""
    runs = [run for results in many for run in results.contest.runs]
    figures = figures_of(many)
    title = f"Report of {_count(len(runs), 'run')}"
    all_notes = [*notes, *notes_of(many)]
    body = [
        f"<header>\n<h1>{title}</h1>\n<p class='lead'>{escape_html(_scope(many))}</p>",
        f"{_contents(many)}{_noted(all_notes)}</header>",
        "<main>",
        *(_section(results, place, figures[place]["charts"]) for place, results in enumerate(many)),
        "</main>",
        f"<footer>Made by turbosvm {escape_html(__version__)}. {_explained(many)}</footer>",
    ]
    parts = {
        "title": title,
        "style": _asset("page.css"),
        "body": "\n".join(body),
        "figures": for_script(figures),
        "script": _asset("page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def notes_of(many: Sequence[Results]) -> list[str]:
    """What was noted of each data set, by its name where there are several."""
    return [
        note if len(many) == 1 else f"{results.contest.title}: {note}" for results in many for note in results.notes
    ]


def figures_of(many: Sequence[Results]) -> list[dict[str, Any]]:
    """What the page's script draws: for each contest the groups' names, and the lines of each chart."""
    lines = [(results, kind, lines_of(results.contest.groups, kind)) for results in many for kind in KINDS]
    count = sum(len(found) for _, _, found in lines)
    most = min(MOST_POINTS, max(LEAST_POINTS, POINTS // max(count, 1)))
    charts: dict[int, list[dict[str, Any]]] = {id(results): [] for results in many}
    for results, kind, found in lines:
        if found:
            chart = {name: getattr(kind, name) for name in ("name", "title", "across", "x_unit", "y_unit")}
            chart["targets"] = results.targets if kind.columns[0] == "accuracy" else []
            chart["lines"] = [_numbers(place, thinned(line, most)) for place, line in found]
            charts[id(results)].append(chart)
    return [
        {
            "groups": [visible(group.label) for group in results.contest.groups],
            "first": [results.contest.groups.index(group) for group in leading(results)],
            "charts": charts[id(results)],
        }
        for results in many
    ]


def for_script(value: Any) -> str:
    """JSON that can stand inside a script element, whatever its texts are."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _numbers(place: int, line: Line) -> dict[str, Any]:
    parts = {"x": line.x, "mean": line.mean, "low": line.low, "high": line.high}
    return {"group": place, **{name: _rounded(values) for name, values in parts.items()}}


def _rounded(values: Floats) -> list[float | int]:
    """Numbers with as many digits as one can see."""
    shown = (float(f"{value:.5g}") for value in values.tolist())
    return [int(value) if value.is_integer() else value for value in shown]


def _section(results: Results, place: int, charts: Sequence[Mapping[str, Any]]) -> str:
    """All of one data set."""
    contest = results.contest
    parts = [
        f'<section id="contest-{place}" aria-labelledby="title-{place}">',
        f'<h2 id="title-{place}">{escape_html(contest.title)}</h2>',
        f"<p class='quiet'>{escape_html(_conditions(results))}</p>",
        _facts(results),
        html_table(results_table(results)),
        "<h3>Curves</h3>",
        f"<p class='hint'>{HINT}</p>",
        f'<div class="legend" role="group" aria-label="Show or hide on {escape_html(contest.title)}"></div>',
        "<noscript><p>The curves are drawn by a script, which this browser does not run.</p></noscript>",
        '<div class="charts">',
        *map(_chart, charts),
        "</div>",
    ]
    titles = ("Beside the paper", f"Difference from {results.baseline}")
    for title, table in zip(titles, (paper_table(results), paired_table(results)), strict=True):
        if table.rows:
            parts += [f"<h3>{escape_html(title)}</h3>", html_table(table)]
    ablation = ablation_tables(results)
    parts += ["<h3>Selection and spread-out</h3>"] if ablation else []
    parts += [html_table(table) for table in ablation]
    parts += ["<h3>How it was made</h3>", _configs(contest.groups), _environments(contest.runs), "</section>"]
    return "\n".join(parts)


def _chart(chart: Mapping[str, Any]) -> str:
    """The place where the script draws a chart."""
    caption = f"<figcaption><span>{escape_html(chart['title'])}</span></figcaption>"
    return f'<figure class="chart" data-chart="{chart["name"]}">{caption}</figure>'


def _facts(results: Results) -> str:
    """The best rows in large letters, where all rows are comparable."""
    if len({group.task for group in results.contest.groups}) != 1 or len(results.rows) < 2:
        return ""
    titles = {ROUNDS: f"Fewest rounds to {percent(results.targets[0])}", **BEST}
    cards = []
    for measure, title in titles.items():
        winners = [row for row in results.rows if measure in row.best]
        if winners:
            names = winners[0].group.label + (f" and {len(winners) - 1} more" if len(winners) > 1 else "")
            unit = " rounds" if measure == ROUNDS else f" {TITLES[measure].split()[-1]} at round {results.at}"
            value = f"{winners[0].estimates[measure]}{unit}"
            cards.append(
                f"<div><dt>{escape_html(title)}</dt><dd>{escape_html(names)}<small>{escape_html(value)}</small></dd></div>"
            )
    return f'<dl class="facts">{"".join(cards)}</dl>' if cards else ""


BEST = {"accuracy": "Highest accuracy", "macro_f1": "Highest macro F1"}


def _conditions(results: Results) -> str:
    """What all runs of a contest have in common, in a sentence."""
    settings = [group.settings for group in results.contest.groups]
    words = {
        "model.name": "model {}",
        "clients_per_round": "{} clients a round",
        "client.epochs": "{} local epochs",
        "client.batch_size": "batches of {}",
        "client.learning_rate": "clients' learning rate {}",
    }
    said = []
    for key, form in words.items():
        values = {str(each.get(key)) for each in settings if key in each}
        if len(values) == 1:
            said.append(form.format(*values).replace("1 local epochs", "1 local epoch"))
    abouts = [run.environment.get("data") for run in results.contest.runs]
    counts = {
        (str(about.get("users_train")), str(about.get("users_held_out"))) for about in abouts if isinstance(about, dict)
    }
    if len(counts) == 1 and "None" not in (pair := counts.pop()):
        said.insert(0, f"{pair[0]} users train, {pair[1]} are held out")
    return "; ".join(said) + "." if said else ""


def _scope(many: Sequence[Results]) -> str:
    """Which algorithms on which data at which seeds."""
    runs = [run for results in many for run in results.contest.runs]
    names = list(dict.fromkeys(run.algorithm for run in runs))
    seeds = sorted({run.seed for run in runs})
    seen = (
        f"seeds {seeds[0]} to {seeds[-1]}"
        if len(seeds) > 8
        else f"{_plural('seed', len(seeds))} {_and(map(str, seeds))}"
    )
    return f"{_and(names)} on {_and(results.contest.title for results in many)}, {seen}"


def _contents(many: Sequence[Results]) -> str:
    if len(many) == 1:
        return ""
    links = "".join(
        f'<li><a href="#contest-{place}">{escape_html(results.contest.title)}</a></li>'
        for place, results in enumerate(many)
    )
    return f'<nav aria-label="Data sets"><ul>{links}</ul></nav>\n'


def _noted(notes: Sequence[str]) -> str:
    """What the reader must know of the runs; the first notes at once, the others on demand."""
    if not notes:
        return ""
    items = [f"<li>{escape_html(note)}</li>" for note in notes]
    shown = f"<ul>{''.join(items[:MOST_NOTES])}</ul>"
    if len(items) > MOST_NOTES:
        rest = f"<ul>{''.join(items[MOST_NOTES:])}</ul>"
        shown += f"<details><summary>{len(items) - MOST_NOTES} more</summary>{rest}</details>"
    return f'<section class="noted" aria-labelledby="noted"><h2 id="noted">Noted</h2>{shown}</section>\n'


def _configs(groups: Sequence[Group]) -> str:
    blocks = "".join(
        f"<details><summary>{escape_html(group.label)}, {_seeds_of(group)}</summary>"
        f"<pre>{escape_html(_yaml(group))}</pre></details>"
        for group in groups
        if group.runs[0].config
    )
    return f"<details><summary>Configs</summary>{blocks}</details>" if blocks else ""


def _yaml(group: Group) -> str:
    """A group's config as it was saved, without the seed."""
    config = {key: value for key, value in group.runs[0].config.items() if key != "seed"}
    return dump_yaml(config)


def _seeds_of(group: Group) -> str:
    return f"{_plural('seed', len(group.runs))} {_and(str(run.seed) for run in group.runs)}"


def _environments(runs: Sequence[RunRecords]) -> str:
    """What the runs ran on: each environment once, with the number of runs and the commands."""
    counted = Counter(_environment_text(run.environment) for run in runs if run.environment)
    if not counted:
        return ""
    blocks = "".join(f"<p>{_count(count, 'run')}:</p><pre>{escape_html(text)}</pre>" for text, count in counted.items())
    commands = dict.fromkeys(_command(run.environment) for run in runs)
    lines = "\n".join(command for command in commands if command)
    told = f"<p>Commands:</p><pre>{escape_html(lines)}</pre>" if lines else ""
    return f"<details><summary>Environment</summary>{blocks}{told}</details>"


def _environment_text(environment: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in environment.items() if key not in ("started", "command", "data", "settings")}
    return json.dumps(kept, indent=2, ensure_ascii=False)


def _command(environment: Mapping[str, Any]) -> str:
    command = environment.get("command")
    return " ".join(map(str, command)) if isinstance(command, list) else ""


def _explained(many: Sequence[Results]) -> str:
    """How figures came about, as far as the page has such."""
    said = ["All metrics are of users who never trained."]
    if any(row.paired for results in many for row in results.rows):
        said.append("Intervals are Student's t over the differences at the same seeds.")
    if any(row.beside_paper for results in many for row in results.rows):
        said.append(f'The paper is <a href="{PAPER}">TurboSVM-FL, AAAI 2024</a>.')
    return " ".join(said)


def _asset(name: str) -> str:
    return files("turbosvm.report").joinpath(name).read_text(encoding="utf-8").rstrip()


def _count(number: int, word: str) -> str:
    return f"{number:,} {_plural(word, number)}"


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"


def _and(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
