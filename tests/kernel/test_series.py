"""What can be said about a series without a kernel source: the folder, the mails, the table in the README."""

import re

import pytest

from hotplug_common.kernel import lines, series
from kernel_qualify.patches import patchfiles
from kernel_qualify.patches.patchfiles import SUBJECT, PatchFile
from tests import ROOT

PATCHES = ROOT / "kernel-patches"
ALL = patchfiles.all_patches(PATCHES)
EXPERIMENTAL = patchfiles.experimental_patches(PATCHES)
FOLDERS = patchfiles.folders(PATCHES)
EXPERIMENTS = PATCHES / series.EXPERIMENTS
LINK = re.compile(r"^Link: https?://\S+$", re.MULTILINE)
FIGURE = re.compile(r"\b\d[\d.,]* ?(ms|us|ns|s|ppm|ticks|%|grace periods|IPIs|instructions|warnings)\b")
SIGN_OFF = re.compile(r"^Signed-off-by:", re.MULTILINE | re.IGNORECASE)
PRIVATE_PATH = re.compile(r"(?<![\w.])/(root|home|work|tmp)/")
COVER_LETTER = "0000-cover-letter.patch"
# Verbs whose base form looks like another form.
IMPERATIVE = ("Bring", "Embed", "Feed", "Focus", "Need", "Speed")

per_patch = pytest.mark.parametrize(
    "patch", [*ALL, *EXPERIMENTAL], ids=[f"{p.line}-{p.number}" for p in [*ALL, *EXPERIMENTAL]]
)
per_experimental_patch = pytest.mark.parametrize(
    "patch", EXPERIMENTAL, ids=[f"{p.line}-{p.number}" for p in EXPERIMENTAL]
)


def test_there_are_patches() -> None:
    assert ALL


@pytest.mark.parametrize("line", lines.names(PATCHES))
def test_every_line_says_where_its_source_is_and_has_its_topics(line: str) -> None:
    read = lines.load(PATCHES, line)
    assert read.package == f"linux-source-{line}"
    assert read.suites
    assert set(read.topics) == {listing.parent.parent.name for listing in PATCHES.glob(f"*/{line}/series")}
    named = {name for more in read.fragments.values() for name in more}
    assert {f"{name}.config" for name in named | set(read.fragments)} <= {
        path.name for path in (PATCHES / "configs").iterdir()
    }


@pytest.mark.parametrize("folder", [*FOLDERS, *patchfiles.experiments(PATCHES)])
def test_series_and_folder_agree(folder: str) -> None:
    there = {path.name for path in (PATCHES / folder).glob("*.patch") if path.name != COVER_LETTER}
    assert set(patchfiles.listed(PATCHES, folder)) == there


@pytest.mark.parametrize("folder", [*FOLDERS, *patchfiles.experiments(PATCHES)])
def test_patches_are_numbered_as_they_apply(folder: str) -> None:
    names = patchfiles.listed(PATCHES, folder)
    assert [name[:5] for name in names] == [f"{number:04}-" for number in range(1, len(names) + 1)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_cover_letter_lists_its_patches(folder: str) -> None:
    """So that it is not forgotten when a patch comes or goes."""
    letter = PatchFile(folder, PATCHES / folder / COVER_LETTER)
    patches = patchfiles.patches_of(PATCHES, folder)
    assert letter.subject.startswith(f"[PATCH 0/{len(patches)}] ")
    subjects = [patch.subject.removeprefix("[PATCH] ") for patch in patches]
    text = letter.path.read_text()
    assert re.findall(r"^  (\S.*)$", text.split("\nShortlog:\n", 1)[1], re.MULTILINE) == subjects
    assert not SIGN_OFF.search(text)


@per_patch
def test_patch_is_a_mail_that_git_am_reads(patch: PatchFile) -> None:
    text = patch.path.read_text()
    assert re.match(r"From [0-9a-f]{40} Mon Sep 17 00:00:00 2001\nFrom: .+\n", text)
    assert re.search(r"^Date: .+$", text, re.MULTILINE)
    assert re.search(r"^ .+ \| +\d+ [+-]+$", text.split("\n---\n", 1)[1], re.MULTILINE), "no diffstat"
    assert patch.touched


@per_patch
def test_subject_names_the_subsystem_and_says_what_to_do(patch: PatchFile) -> None:
    subject = SUBJECT.fullmatch(patch.subject)
    assert subject, f"not '[PATCH] subsystem: Do something': {patch.subject}"
    summary = subject["summary"]
    assert summary[0].isupper()
    assert not summary.endswith(".")
    verb = summary.split()[0]
    assert verb in IMPERATIVE or not re.search(r"(ed|ing|[^s]s)$", verb), f"'{verb}' is no imperative"


@per_patch
def test_message_gives_evidence(patch: PatchFile) -> None:
    assert len(patch.message.split()) > 30
    assert LINK.search(patch.message) or FIGURE.search(patch.message), (
        "neither a Link: nor a number with its unit"
    )


@per_patch
def test_message_is_not_signed_off(patch: PatchFile) -> None:
    """A sign-off certifies the origin: whoever submits the patch gives it, with `git am --signoff`."""
    assert not SIGN_OFF.search(patch.message)


@per_patch
def test_patch_names_no_path_of_somebodys_machine(patch: PatchFile) -> None:
    assert not PRIVATE_PATH.findall("\n".join([patch.subject, patch.message, *patch.added]))


@per_experimental_patch
def test_an_experiment_says_that_it_is_none_to_merge_and_why(patch: PatchFile) -> None:
    assert patch.message.startswith("Not for merging.  An experiment: ")
    assert "\n\nWhy it must not be merged: " in patch.message
    assert LINK.search(patch.message)


def test_every_experiment_has_a_name_that_a_kernel_can_carry() -> None:
    """It goes into `uname -r`, which has room for 64 characters, and on the kernel command line."""
    names = [folder.name for folder in EXPERIMENTS.iterdir() if folder.is_dir()]
    assert sorted(names) == list(series.experiments(PATCHES))
    assert not set(names) & set(series.VARIANTS)
    for name in names:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{,30}", name)


def test_readme_lists_every_experiment() -> None:
    linked = re.findall(r"\]\((?!\.\.)([^)]+\.patch)\)", (EXPERIMENTS / "README.md").read_text())
    assert sorted(f"{series.EXPERIMENTS}/{name}" for name in linked) == sorted(
        f"{patch.folder}/{patch.path.name}" for patch in EXPERIMENTAL
    )


def test_readme_lists_every_patch_and_every_fragment() -> None:
    text = (PATCHES / "README.md").read_text()
    linked = re.findall(r"\]\(([^)]+\.(?:patch|config))\)", text)
    there = [f"{patch.folder}/{patch.path.name}" for patch in ALL]
    there += [f"configs/{path.name}" for path in sorted((PATCHES / "configs").glob("*.config"))]
    assert sorted(linked) == sorted(there)
