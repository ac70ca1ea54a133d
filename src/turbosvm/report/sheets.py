"""Tables as CSV whose text a spreadsheet shows, and does not take for a formula."""

from typing import Any

import pandas as pd

from turbosvm.visible import visible

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula may begin with, also in letters of full width."""


def to_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV; text that would be a formula has an apostrophe before it, numbers are as they are."""
    plain = table.rename(columns=plain_text)
    for name in plain.select_dtypes(["object", "string"]).columns:
        plain[name] = plain[name].map(plain_text)
    text: str = plain.to_csv(index=False)
    return text


def plain_text(value: Any) -> Any:
    """What a cell holds, if it is text, so that it stays text."""
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if value.lstrip(" ").startswith(FORMULAS) else visible(value)
