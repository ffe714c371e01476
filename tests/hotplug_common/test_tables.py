"""One sheet of tables, in every format."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common.files import write_files
from hotplug_common.tables import FORMATS, Column, Kind, Sheet, Table, print_tables, to_csv
from hotplug_host.errors import ExitCode, ToolError

FRUITS = Table[tuple[str, float]](
    "fruits",
    (
        Column("fruit", lambda row: row[0], Kind.WORDS),
        Column("weight (g)", lambda row: f"{row[1]:.1f}"),
        Column("verdict", lambda row: "slower" if row[1] > 100 else "faster", Kind.WORDS),
    ),
    [("apple", 182.25), ("fig|\x1b", 7.0)],
    "what they weigh",
    record=lambda row: {"name": row[0], "weight_g": row[1], "parts": [1, 2]},
    flat=lambda row: {"name": row[0], "weight_g": row[1]},
)
PEOPLE_ONLY = Table[int]("sums", [Column("sum", str)], [3], "in words")
EMPTY = Table[int]("none", [Column("sum", str)], [], "nothing", record=lambda row: {"sum": row})
SHEET = Sheet(
    [FRUITS, PEOPLE_ONLY, EMPTY],
    lead=("of this year",),
    notes=("a note",),
    facts={"schema": "fruits/1"},
    remarks={"warnings": ["worms"]},
    doubts=("worms",),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(sheet: Sheet, style: str) -> str:
    out = io.StringIO()
    print_tables(sheet, style, out)
    return out.getvalue()


def test_text_is_aligned_words_to_the_left_and_numbers_to_the_right() -> None:
    assert printed(SHEET, "table") == (
        "of this year\n"
        "\n"
        "what they weigh\n"
        "fruit     weight (g)  verdict\n"
        "apple          182.2  slower\n"
        "fig|\\x1b         7.0  faster\n"
        "\n"
        "in words\n"
        "sum\n"
        "  3\n"
        "\n"
        "a note\n"
    )


def test_a_table_without_heading_follows_the_lead_and_nothing_precedes_a_first_heading() -> None:
    assert printed(Sheet([replace(PEOPLE_ONLY, heading="")], lead=("lead",)), "table") == "lead\nsum\n  3\n"
    assert printed(Sheet([PEOPLE_ONLY]), "table") == "in words\nsum\n  3\n"


def test_markdown_escapes_and_ends_with_what_to_mind() -> None:
    assert printed(SHEET, "markdown") == (
        "of this year\n\nwhat they weigh:\n\n"
        "| fruit | weight (g) | verdict |\n| --- | --- | --- |\n"
        "| apple | 182.2 | slower |\n| fig&#124;&#92;x1b | 7.0 | faster |\n"
        "\nin words:\n\n| sum |\n| --- |\n| 3 |\n"
        "\na note\n\nTo mind:\n\n- worms\n"
    )


def test_json_has_facts_lists_and_remarks_in_this_order_and_numbers_unrounded() -> None:
    content = json.loads(printed(SHEET, "json"))
    assert list(content) == ["schema", "fruits", "none", "warnings"]
    assert content["fruits"][0] == {"name": "apple", "weight_g": 182.25, "parts": [1, 2]}
    assert content["none"] == []


def test_tables_of_one_name_are_one_list() -> None:
    twice = Sheet([FRUITS, replace(FRUITS, rows=[("plum", 1.0)])])
    rows = json.loads(printed(twice, "json"))["fruits"]
    assert [row["name"] for row in rows] == ["apple", "fig|\x1b", "plum"]
    lines = csv.DictReader(io.StringIO(to_csv(twice)))
    assert [line["name"] for line in lines] == ["apple", "fig|\\x1b", "plum"]


def test_csv_has_the_columns_of_all_tables() -> None:
    other = Table[int]("other", [Column("n", str)], [5], flat=lambda row: {"n": row})
    assert printed(Sheet([FRUITS, other]), "csv").splitlines() == [
        "name,weight_g,n", "apple,182.25,", "fig|\\x1b,7.0,", ",,5",
    ]  # fmt: skip
    assert printed(Sheet([EMPTY]), "csv") == ""


def test_a_terminal_has_colours_by_verdict_and_no_format_for_programs_has() -> None:
    terminal = Terminal()
    print_tables(SHEET, "table", terminal)
    (apple,) = (line for line in terminal.getvalue().splitlines() if "apple" in line)
    (fig,) = (line for line in terminal.getvalue().splitlines() if "fig" in line)
    assert "\x1b[31m" in apple
    assert "\x1b[32m" in fig
    assert "fig|\\x1b" in fig
    for style in FORMATS[1:]:
        plain = Terminal()
        print_tables(SHEET, style, plain)
        assert "\x1b" not in plain.getvalue()


def test_files_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "new/folder", {"a.md": "a", "b.md": "b"}, "table")
    assert [path.read_text() for path in paths] == ["a", "b"]
    with pytest.raises(ToolError, match=r"cannot write the table to .*a\.md: File exists") as caught:
        write_files(tmp_path / "new/folder/a.md", {"c.md": "c"}, "table")
    assert caught.value.code == ExitCode.ENVIRONMENT
