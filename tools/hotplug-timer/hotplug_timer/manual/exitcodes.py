"""The meaning of each exit code, for the man page and for docs/reference/exit-codes.md."""

from __future__ import annotations

from hotplug_host.errors import ExitCode

MEANINGS = {
    ExitCode.OK: "Done.",
    ExitCode.INTERNAL: "A bug in the program. Put the traceback into the report of it.",
    ExitCode.USAGE: (
        "The command line is wrong: bad arguments, an unknown operation, an SMT level the machine lacks, "
        "zero iterations, an output file that exists already, or a run that `--resume` cannot continue."
    ),
    ExitCode.ENVIRONMENT: (
        "Something the command needs is missing: a package or tool, root, the network, a free port, a "
        "kernel option, or a setting that another program holds. `preflight` found the host unfit."
    ),
    ExitCode.INPUT: (
        "An input is wrong: an unreadable, foreign or newer result file, results that cannot be compared, a "
        "patch that no longer applies, or a configuration symbol that got lost."
    ),
    ExitCode.OPERATION: (
        "The SMT switch failed or left the wrong CPUs online, or the state from before could not be "
        "restored; the line names the CPUs. A command of `--prepare` or `--cleanup` failed. CPUs of the run "
        "were added or removed. `clock-check` proved that a clock is wrong, or the clocksource changed "
        "during the measurement. For `history check`, the newest run of a host and variant failed."
    ),
    ExitCode.GUEST: "The guest panicked, oopsed or ended early.",
    ExitCode.TIMEOUT: "The command did not finish in time. The guest, if there is one, still runs.",
    ExitCode.REGRESSION: "`history check` found a series that has become slower.",
    ExitCode.NO_BASELINE: "`history check` found no series with enough history for a verdict.",
    ExitCode.DISK_FULL: "The disk is full: the output does not fit. Nothing else is wrong.",
    ExitCode.INTERRUPTED: (
        "Ctrl-C (SIGINT) ended the command. It restored the SMT state and kept every finished iteration. "
        "`smt` leaves the CPUs that it had switched and restores the RCU settings."
    ),
    ExitCode.TERMINATED: "SIGTERM or SIGHUP ended the command, with the same effect as Ctrl-C.",
}
