"""Runs ``openstack`` commands, each in a process of its own, without loading the client each time.

Runs in the clients' environment. Each line of standard input is a JSON list of arguments; each
line of standard output is the JSON answer ``{"code", "out", "err"}``. The client is not changed:
a child process, forked when everything is imported, runs its ``main`` as the program does.
"""

import contextlib
import io
import json
import os
import sys
import tempfile

from openstackclient import shell


def run(arguments):
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            try:
                code = shell.main(arguments)
            except SystemExit as exc:  # argparse's way to refuse
                code = exc.code
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code or 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return {"code": code, "out": out.read(), "err": err.read()}


# The help of a command needs what every command needs.
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    shell.main(["baremetal", "node", "list", "--help"])

for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
