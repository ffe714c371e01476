"""What each exit code means, for the man page; docs/exit-codes.md has the same words."""

from __future__ import annotations

from hotplug_host.errors import ExitCode

MEANINGS = {
    ExitCode.OK: "Done.",
    ExitCode.INTERNAL: "A bug: the traceback above belongs in the report of it.",
    ExitCode.USAGE: (
        "The command line asks for something there is not: bad arguments, an unknown operation, an "
        "SMT level the machine lacks, zero iterations, a file that exists already, a run that is not "
        "the one to be resumed."
    ),
    ExitCode.ENVIRONMENT: (
        "Something the command needs is missing: a package or tool, root, the network, a "
        "free port, a kernel option, a setting that somebody else holds; a host that `preflight`"
        " finds unfit."
    ),
    ExitCode.INPUT: (
        "An input is not what it should be: an unreadable, foreign or newer result file, results that "
        "do not compare, a patch that no longer applies, a config symbol that got lost."
    ),
    ExitCode.OPERATION: (
        "The SMT switch failed or left the wrong CPUs online, or the state from before could not be "
        "put back; a command of `--prepare` or `--cleanup` failed; CPUs of the run were added or "
        "removed. The line names the CPUs. A clock that `clock-check` has proven wrong, or a clocksource "
        "that changed while it was measured. Of `history check`: the newest run of a host and variant failed."
    ),
    ExitCode.GUEST: "The guest panicked, oopsed or ended early.",
    ExitCode.TIMEOUT: "It did not finish in time; a guest that is still alive is not a `GUEST` fault.",
    ExitCode.REGRESSION: "Of `history check`: a series has become slower.",
    ExitCode.NO_BASELINE: "Of `history check`: no series has enough history to be judged.",
    ExitCode.DISK_FULL: "The disk is full: what was to be written does not fit; nothing else is wrong.",
    ExitCode.INTERRUPTED: (
        "Ended by Ctrl-C (SIGINT), with the SMT state put back and every finished iteration kept. "
        "`smt` leaves what was switched until then and puts RCU settings back."
    ),
    ExitCode.TERMINATED: "The same, by SIGTERM or SIGHUP.",
}
