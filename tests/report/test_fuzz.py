"""Whatever is in the files, a report is made, or one sentence says why not."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.makers import config_of, record_of, write_run
from turbosvm.errors import TurboSVMError
from turbosvm.record_lines import line_of
from turbosvm.report.folder import work_out
from turbosvm.report.layout import tables_of
from turbosvm.report.markup import html_table, latex_table, markdown_table
from turbosvm.report.numbers import numbers_of
from turbosvm.report.page import page_of
from turbosvm.report.pictures import draw_kind
from turbosvm.report.reading import gather
from turbosvm.report.series import BY_NAME

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "femnist", "turbosvm", "</script>", "$x$", "a/b", "..", "\0", "ä\u2028[]{{body}}"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(["name", "epochs", "head", "selection"]), st.integers(0, 1), max_size=2),
)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """A config in which some values are others, at the top or a level below."""
    config = config_of(draw(st.sampled_from(["fedavg", "turbosvm"])), "femnist", draw(st.integers(0, 1)))
    for _ in range(draw(st.integers(0, 2))):
        key = draw(st.sampled_from(sorted(config)))
        if isinstance(config[key], dict) and config[key] and draw(st.booleans()):
            config[key][draw(st.sampled_from(sorted(config[key])))] = draw(VALUES)
        else:
            config[key] = draw(VALUES)
    return config


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Lines in which some values are others, and of which the end may be missing."""
    rows = [
        record_of(number, draw(st.sampled_from([None, 0.0, 0.5, 1.0]))) for number in range(1, draw(st.integers(1, 5)))
    ]
    for row in rows:
        if draw(st.integers(0, 3)) == 0:
            row[draw(st.sampled_from(sorted(row)))] = draw(VALUES)
        if draw(st.integers(0, 5)) == 0:
            del row[draw(st.sampled_from(sorted(row)))]
    content = "".join(map(line_of, rows)).encode()
    return content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content


@settings(max_examples=150)
@given(st.lists(st.tuples(configs(), records()), min_size=1, max_size=3))
def test_reports_are_made_or_refused(runs: list[tuple[dict[str, Any], bytes]]) -> None:
    with TemporaryDirectory() as root:
        for place, (config, content) in enumerate(runs):
            folder = write_run(Path(root) / str(place), config_of(), [0.5])
            (folder / "config.yaml").write_text(yaml.safe_dump(config))
            (folder / "records.jsonl").write_bytes(content)
        try:
            gathered = gather([Path(root)])
        except TurboSVMError:
            return
        many = work_out(gathered)
    text = page_of(many, gathered.notes)
    assert text.count("<script") == 2
    numbers_of(many).to_csv()
    for results in many:
        draw_kind(results, BY_NAME["accuracy"])
        for table in tables_of(results):
            for write in (markdown_table, latex_table, html_table):
                assert write(table)
