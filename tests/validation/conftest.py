"""The validation of the series: half an hour and more each, so it runs only when it is named.

`pytest` and `pytest tests` pass these tests by; `pytest tests/validation/test_stress.py` runs one.
What the modules share with tests/lab and tests/kernel is imported from there.
"""

import hashlib
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(TESTS / "lab"), str(TESTS / "kernel"), str(HERE)]

from proving import RESULTS, Order, Proving  # noqa: E402

from hotplug_common.kernel import lines, series  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.lab.labtools import Lab, opened  # noqa: E402

OPTIONS = (
    *("--base", "--arch", "--cores", "--threads", "--variant", "--kernel"),
    *("--kasan", "--switches", "--every", "--minutes"),
    *("--iterations", "--stock-modes", "--patched-modes", "--bare", "--one-thread"),
    *("--append", "--chunk", "--boots", "--calls", "--rounds", "--sleeps"),
)
"""What decides, beside the files, what a test does."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("validation", "validation of the kernel series")
    group.addoption(
        "--base", choices=lines.names(ROOT / "kernel-patches"), default="6.12", help="kernel line (6.12)"
    )
    group.addoption("--arch", choices=["ppc64le", "x86_64"], default="ppc64le", help="guest (ppc64le)")
    group.addoption("--cores", type=int, default=2, help="cores of the guest (2)")
    group.addoption("--threads", type=int, default=8, help="threads per core (8)")
    group.addoption(
        "--variant",
        choices=["patched", "stock"],
        default="patched",
        help="kernel (patched); stock fails, and shows which reports are its own",
    )
    group.addoption("--kernel", type=Path, help="artifact.json of the kernel to use instead of building one")
    group.addoption("--kasan", action="store_true", help="with KASAN as well, which takes longer")
    group.addoption("--switches", type=int, default=200, help="test_stress: SMT switches (200)")
    group.addoption("--every", type=int, default=1, help="test_failure_injection: every Nth state (1)")
    group.addoption("--minutes", type=float, default=30.0, help="test_rcutorture: minutes each (30)")
    group.addoption(
        "--iterations",
        type=int,
        default=15,
        help="test_speed, test_rcu_variants: timed switches of each kind; test_speed, 0: only the one that is"
        " counted (15)",
    )
    group.addoption(
        "--stock-modes",
        default="plain,expedited,legacy",
        help="test_speed: ways to switch the stock kernel: plain, expedited, legacy, crash (with a crash"
        " kernel loaded); '' for none (plain,expedited,legacy)",
    )
    group.addoption(
        "--patched-modes",
        default="plain,legacy",
        help="test_speed: the same of the patched one (plain,legacy)",
    )
    group.addoption(
        "--bare",
        action="store_true",
        help="test_speed: in guests without systemd and SSH, for hundreds of CPUs",
    )
    group.addoption(
        "--one-thread",
        action="store_true",
        help="test_speed, with --bare: the guest's CPUs take turns on one thread of the emulator, so that one"
        " which waits gives way to the others at once",
    )
    group.addoption(
        "--boots", type=int, default=5, help="test_clock_costs, test_latencies: boots of each kernel (5)"
    )
    group.addoption(
        "--calls",
        type=int,
        default=20_000_000,
        help="test_clock_order: calls for each clocksource (20000000)",
    )
    group.addoption("--rounds", type=int, default=3, help="test_clock_early: sleeps of each kind (3)")
    group.addoption("--sleeps", default="", help="test_clock_early: their lengths in seconds (0.01,0.1,1,4)")
    group.addoption("--chunk", type=int, help="test_speed: CPUs of a chunk (what the patched kernel has)")
    group.addoption(
        "--append",
        default="",
        help="test_speed: more words for the guest's kernel command line, such as smt-enabled=off, with which"
        " a large guest boots sooner: its secondary threads come with the first switch",
    )
    group.addoption(
        "--resume",
        action="store_true",
        help="pass by what has passed with these patches, fragments, tests and options",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass the long tests by unless the command line names this folder or a file in it."""
    if collection_path.parent != HERE or not collection_path.name.startswith("test_"):
        return None
    words = [str(word).partition("::")[0] for word in config.invocation_params.args]
    paths = [(config.invocation_params.dir / word).resolve() for word in words]
    return None if any(HERE in (path, path.parent) for path in paths) else True


def inputs(config: pytest.Config) -> str:
    """A digest of what a test's outcome depends on."""
    digest = hashlib.sha256()
    base = config.getoption("--base")
    patches = ROOT / "kernel-patches"
    files = [*(patches / "configs").iterdir(), *(patches / "lines").iterdir()]
    files += [*patches.glob(f"*/{base}/*"), *(patches / series.EXPERIMENTS).glob("*/*.patch")]
    files += [*HERE.glob("*.py"), *HERE.glob("guest/*.py"), *(TESTS / "kernel").glob("workshop.py")]
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    digest.update(repr([str(config.getoption(option)) for option in OPTIONS]).encode())
    return digest.hexdigest()


def stamp(item: pytest.Item) -> Path:
    """Where it is noted that a test passed."""
    return RESULTS / "passed" / item.name


def pytest_runtest_setup(item: pytest.Item) -> None:
    """With --resume, skip what has passed."""
    if item.path.parent != HERE or not item.config.getoption("--resume"):
        return
    try:
        digest, when, seconds = stamp(item).read_text().split()
    except (OSError, ValueError):
        return
    if digest == inputs(item.config):
        pytest.skip(f"passed at {when}, in {seconds} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what passed, for --resume."""
    report = yield
    if item.path.parent == HERE and report.when == "call" and report.passed:
        stamp(item).parent.mkdir(parents=True, exist_ok=True)
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        stamp(item).write_text(f"{inputs(item.config)} {when} {report.duration:.0f}\n")
    return report


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Write a line of progress to the terminal, whatever pytest captures."""
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    return lambda line: reporter.write_line(line) if reporter else None


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with opened(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def proving(
    lab: Lab, say: Callable[[str], None], pytestconfig: pytest.Config, request: pytest.FixtureRequest
) -> Iterator[Proving]:
    """Guests of the base, architecture and shape that were asked for; taken down afterwards."""
    option = pytestconfig.getoption
    topics = ("kasan",) if option("--kasan") else ()
    shape = (option("--cores"), option("--threads"))
    order = Order(option("--arch"), option("--base"), *shape, topics, option("--variant"), option("--kernel"))
    ground = Proving(lab, order, RESULTS / request.node.name, say)
    yield ground
    ground.close()
