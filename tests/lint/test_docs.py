"""The documentation against what it documents: commands parse, links lead somewhere, output is real."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from docpages.commands import PARSERS
from hotplug_host.errors import ToolError
from tests import ROOT

DOCS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "results" for part in path.relative_to(ROOT).parts)
)
FENCE = re.compile(r"^```(?P<language>\S*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PARENT_PATH = re.compile(r"(?<![\w./])(?:\.\./)+[\w./-]+")
MACHINE_PATH = re.compile(r"(?<![\w.~$}])/(?:root|home|work|tmp)/\S+")
TARGET = re.compile(r"^([\w-]+):", re.MULTILINE)

OURS = (*PARSERS, "make", "ansible-playbook")
# Programs of others that the documentation calls; what they are given is theirs to check.
FOREIGN = {
    *(
        ".",
        "ansible",
        "ansible-builder",
        "ansible-galaxy",
        "ansible-runner",
        "ansible-vault",
        "cat",
        "cd",
        "git",
        "journalctl",
        "man",
        "molecule",
    ),
    *("ln", "ppc64_cpu", "python3", "rm", "scp", "ssh", "systemctl", "udevadm"),
}
CONTROL = {"&&", "||", ";", "|", "&", "(", ")"}

per_doc = pytest.mark.parametrize("doc", DOCS, ids=[str(path.relative_to(ROOT)) for path in DOCS])


def command_lines(text: str) -> Iterator[str]:
    """The commands in a document's fenced blocks: after `$ ` in console blocks, every line of sh blocks.

    In a block without a language a line counts when it starts with a program of this project.
    """
    for fence in FENCE.finditer(text):
        body = re.sub(r"\\\n\s*", "", fence["body"])
        for line in body.splitlines():
            match fence["language"]:
                case "console" if line.startswith("$ "):
                    yield line[2:]
                case "sh":
                    yield line
                case "" if line.split(" ")[0] in OURS:
                    yield line


def simple_commands(line: str) -> Iterator[list[str]]:
    """Split a shell line into its commands, also those in $(...), without assignments and redirections."""
    for inner in re.findall(r"\$\(([^()]*)\)", line):
        yield from simple_commands(inner)
    lexer = shlex.shlex(re.sub(r"\$\([^()]*\)", "SUBSTITUTED", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if token not in CONTROL:
            words.append(token)
            continue
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            del words[0]
        redirected = next((at for at, word in enumerate(words) if set(word) <= {"<", ">"}), len(words))
        if words[:redirected]:
            yield words[:redirected]
        words = []


def problem_of(words: list[str]) -> str:
    """What is wrong with a command; empty when it is one that can be run."""
    program, arguments = words[0], words[1:]
    name = program.rpartition("/")[2]
    if name == "python3" and arguments and arguments[0].endswith(".pyz"):
        name, arguments = Path(arguments[0]).stem, arguments[1:]
    if name == "make" and "-C" not in arguments:
        targets = TARGET.findall((ROOT / "Makefile").read_text())
        unknown = [word for word in arguments if "=" not in word and word not in targets]
        return f"no target {unknown}" if unknown else ""
    if name in PARSERS:
        return parse_problem(PARSERS[name](), arguments)
    if name == "ansible-playbook":
        # The lab's inventory is written when a guest starts: a checkout has none.
        books = [
            word
            for before, word in pairwise(["", *arguments])
            if word.endswith(".yml") and before not in ("-i", "-e")
        ]
        by_name = (word.removeprefix("smt.hotplug.") for word in arguments if word.startswith("smt.hotplug."))
        books += [f"playbooks/{name}.yml" for name in by_name]
        found = books and all((ROOT / "ansible" / book).exists() or (ROOT / book).exists() for book in books)
        return "" if found else f"no playbook in {arguments}"
    if "/" in program:
        tests = arguments[2:] if arguments[:2] == ["-m", "pytest"] else []
        files = [program, *(word.partition("::")[0] for word in tests if "/" in word)]
        missing = [file for file in files if not (ROOT / file).exists()]
        return f"no file {missing}" if missing else ""
    return "" if name in FOREIGN else f"unknown program {name}"


def parse_problem(parser: object, arguments: list[str]) -> str:
    """What a real parser of ours says against the arguments."""
    try:
        parser.parse_args(arguments)  # type: ignore[attr-defined]
    except ToolError as error:
        return str(error)
    except SystemExit as end:
        return "" if end.code == 0 else f"refused: {arguments}"
    return ""


@per_doc
def test_commands_can_be_run(doc: Path) -> None:
    lines = list(command_lines(doc.read_text()))
    problems = [f"{line}: {problem_of(words)}" for line in lines for words in simple_commands(line)]
    assert [problem for problem in problems if not problem.endswith(": ")] == []


@pytest.mark.parametrize(
    "line",
    [
        "make everything",
        "lpar-lab up lab1 --threds 8",
        "lpar-lab fly",
        'ansible -i "$(lpar-lab inventories)" all -m ping',
        "cd ansible && ansible-playbook playbooks/gone.yml",
        "hotplug-timer compare --format pdf a.jsonl",
        "python3 hotplug-timer.pyz run --variant stock",
        "python3 clock-check.pyz scale --thread 4 --paths vdso",
        "python3 elsewhere.pyz run",
        "docs/gone.sh",
        ".venv/bin/python -m pytest tests/gone",
        "curl-something | lpar-lab status",
    ],
)
def test_a_wrong_command_is_noticed(line: str) -> None:
    assert any(problem_of(words) for words in simple_commands(line))


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives a document's headings."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(FENCE.sub("", text)))
    return {heading.strip().replace(" ", "-") for heading in plain}


@per_doc
def test_links_lead_somewhere(doc: Path) -> None:
    for found in LINK.finditer(FENCE.sub("", doc.read_text())):
        link = found[1] or found[2]
        if re.match(r"(https?|mailto):", link):
            continue
        path, _, anchor = link.partition("#")
        target = (doc.parent / path).resolve() if path else doc
        assert target.is_relative_to(ROOT), f"{link} leads out of the checkout"
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target.read_text()), f"{link}: no such heading"


@per_doc
def test_text_is_for_any_machine(doc: Path) -> None:
    """A reader has the checkout and nothing else of its author."""
    text = doc.read_text()
    assert not MACHINE_PATH.findall(text)
    above = [(doc.parent / path).resolve() for path in PARENT_PATH.findall(text)]
    assert [path for path in above if not path.is_relative_to(ROOT)] == []


@pytest.mark.slow
def test_generated_pages_and_blocks_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/docs/refresh.py", "--check"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


#: Pages, and blocks of pages, that a program writes.
GENERATED = re.compile(
    r"^<!-- [a-z ]+(?:: [^\n]+)? -->$.*?^<!-- end of [a-z ]+ -->$", re.MULTILINE | re.DOTALL
)
WRITTEN_BY = re.compile(r"[Gg]enerate[sd]|written by")
MOST_LINES = 250


@per_doc
def test_hand_written_pages_are_short(doc: Path) -> None:
    text = GENERATED.sub("", doc.read_text())
    assert len(text.splitlines()) <= MOST_LINES or WRITTEN_BY.search(text[:500])
