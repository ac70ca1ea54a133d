"""The same tables as Markdown, LaTeX and HTML; what comes from configs is escaped."""

import html
import re
from collections.abc import Sequence

from turbosvm.report.layout import Cell, TextTable
from turbosvm.visible import visible

LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "[": "{[}",
    "]": "{]}",
    "±": r"$\pm$",
    "\N{MINUS SIGN}": "$-$",
    "\N{EN DASH}": "--",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    '"': r"\textquotedbl{}",
}


def markdown_table(table: TextTable) -> str:
    """The table under its caption."""
    header = [_markdown(column) for column in table.columns]
    ruler = ["---"] * table.word_columns + ["---:"] * (len(header) - table.word_columns)
    rows = [
        [f"**{_markdown(cell.text)}**" if cell.best else _markdown(cell.text) for cell in row] for row in table.rows
    ]
    return f"{_markdown(table.caption)}\n\n{_markdown_rows([header, ruler, *rows])}"


def markdown_grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Texts under their columns, without a caption."""
    header, ruler = list(map(_markdown, columns)), ["---"] * len(columns)
    return _markdown_rows([header, ruler, *(list(map(_markdown, row)) for row in rows)])


def _markdown_rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def latex_table(table: TextTable) -> str:
    """The table for a paper with the package booktabs."""
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(table.caption)}}}",
        rf"\begin{{tabular}}{{{'l' * table.word_columns}{'r' * (len(table.columns) - table.word_columns)}}}",
        r"\toprule",
        _latex_row([escape_latex(column) for column in table.columns]),
        r"\midrule",
        *(_latex_row([_latex_cell(cell) for cell in row]) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def html_table(table: TextTable) -> str:
    """The table with a caption, and headers that screen readers can read out."""
    kinds = [' class="word"' if place < table.word_columns else "" for place in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{kind}>{escape_html(column)}</th>' for column, kind in zip(table.columns, kinds, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row">{_html_name(row[0].text)}</th>{"".join(map(_html_cell, row[1:], kinds[1:]))}</tr>\n'
        for row in table.rows
    )
    label = escape_html(table.caption)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{label}"><table>\n'
        f"<caption>{label}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )


def escape_latex(text: str) -> str:
    """Text as LaTeX prints it, whatever is in it."""
    return "".join(LATEX.get(letter, letter) for letter in visible(text))


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(cell: Cell) -> str:
    return rf"\textbf{{{escape_latex(cell.text)}}}" if cell.best else escape_latex(cell.text)


def _html_name(text: str) -> str:
    """A row's name, which may break after signs, not inside words."""
    return re.sub(r"([=_+]|\.(?=[a-z]))", r"\1<wbr>", escape_html(text))


def _html_cell(cell: Cell, kind: str) -> str:
    text = escape_html(cell.text)
    return f"<td{kind}><strong>{text}</strong></td>" if cell.best else f"<td{kind}>{text}</td>"


def escape_html(text: str) -> str:
    """Text as a page shows it, whatever is in it; of letters that cannot be seen, line ends alone stay."""
    return "\n".join(html.escape(visible(line)) for line in text.split("\n"))


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*<|\[\]])", r"\\\1", visible(text))
