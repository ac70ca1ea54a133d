"""CSV that a spreadsheet shows as it is."""

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from tests.report.makers import config_of, write_run
from turbosvm.report.folder import save_report
from turbosvm.report.records import read_run
from turbosvm.report.sheets import plain_text, to_csv
from turbosvm.report.tables import markdown


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "  =1", "\uff1d1", '=HYPERLINK("x")'])
def test_text_is_never_a_formula(text: str) -> None:
    table = pd.DataFrame({"a": [text, "plain"], text: [1.5, -0.5], "n": pd.array([-3, None], dtype="Int64")})
    back = pd.read_csv(StringIO(to_csv(table)))
    assert back["a"].tolist() == [f"'{text}", "plain"]
    assert back[f"'{text}"].tolist() == [1.5, -0.5]
    assert back["n"].iloc[0] == -3
    assert table["a"].tolist() == [text, "plain"]


def test_what_ends_or_begins_a_cell_is_shown() -> None:
    assert plain_text("\t=1") == "'\\t=1"
    assert plain_text("\r=1") == "'\\r=1"
    assert plain_text("a\nb") == "a\\nb"
    assert plain_text(-0.5) == -0.5


def test_a_comparisons_tables_are_escaped_as_a_reports_are(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config_of("=a|b*<script>"), [0.5, 0.6])
    save_report([read_run(folder)], tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "| =a\\|b\\*\\<script> |" in text
    assert "\n'=a|b*<script>,1," in (tmp_path / "table.csv").read_text()
    assert markdown(pd.DataFrame({"a|": ["x\ny", "[l](u)"]})) == "| a\\| |\n| --- |\n| x\\\\ny |\n| \\[l\\](u) |\n"
