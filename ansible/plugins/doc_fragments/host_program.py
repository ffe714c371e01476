"""What the modules that run the host's program have in common."""


class ModuleDocFragment:
    """Options of all of them."""

    DOCUMENTATION = """
options:
  what:
    description: What failed, for the message of a failure; a default names the module's task.
    type: str
  next_step:
    description: What an operator does about a failure, for its message.
    type: str
  answer_timeout:
    description: Seconds after which the host counts as hung.
    type: int
    default: 600
attributes:
  check_mode:
    description: In check mode it changes nothing and reports what it would change.
    support: full
  diff_mode:
    description: Whether it shows before and after.
    support: partial
    details: Where the host's program reports both.
notes:
  - The action plugin C(host_program) feeds the program to the host's python3 by standard input, in one
    remote command. Nothing of it stays on the host.
  - A lost connection is a failure, not an unreachable host, so that the rescue of a play runs.
  - The host needs Python 3.9 or newer; C(ansible_python_interpreter) names one where C(python3) is older.
"""
