"""A stand-in for `nvidia-cuda-mps-control`: a daemon, and one command to it.

With `-d` it starts a process that listens in CUDA_MPS_PIPE_DIRECTORY, as the real one does, and
keeps what it inherited. Commands come on standard input. A file `servers` beside the socket says
which servers and clients there are: `SERVER CLIENT CLIENT ...` a line.
"""

import os
import re
import socket
import sys
from pathlib import Path

PIPE = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
SOCKET = PIPE / "control"
KNOWN = re.compile(
    r"set_default_active_thread_percentage ([1-9][0-9]?|100)"
    r"|set_default_device_pinned_mem_limit [0-9]+ [1-9][0-9]*[MG]"
)


def answer(command: str) -> str:
    """What the daemon says; `!` in front is an error."""
    servers = PIPE / "servers"
    rows = servers.read_text().splitlines() if servers.exists() else []
    clients = {row.split()[0]: row.split()[1:] for row in rows if row}
    word, *rest = command.split()
    if word == "get_server_list":
        return "".join(f"{server}\n" for server in clients)
    if word == "get_client_list" and rest[0] in clients:
        return "".join(f"{client}\n" for client in clients[rest[0]])
    if word == "quit":
        return ""
    if KNOWN.fullmatch(command):
        with (PIPE / "told").open("a") as told:
            told.write(f"{os.environ.get('CUDA_VISIBLE_DEVICES')}: {command}\n")
        return ""
    return f"!unknown command: {command}\n"


def serve() -> None:
    """Answer until someone says `quit`."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(SOCKET))
        listening.listen()
        if os.fork():
            os._exit(0)  # whoever started it goes on; it listens already
        os.setsid()
        while True:
            connection, _ = listening.accept()
            with connection:
                command = connection.recv(4096).decode().strip()
                if command == "quit":
                    SOCKET.unlink()
                connection.sendall(answer(command).encode())
            if command == "quit":
                return


def tell() -> int:
    """Pass commands on, and print what is answered."""
    status = 0
    for line in sys.stdin.read().splitlines():
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(SOCKET))
            except OSError:
                print("Cannot find MPS control daemon process", file=sys.stderr)
                return 1
            connection.sendall(line.encode())
            said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        if said.startswith("!"):
            status = 1
            print(said[1:], end="", file=sys.stderr)
        else:
            print(said, end="")
    return status


if __name__ == "__main__":
    if sys.argv[1:] == ["-d"]:
        if SOCKET.exists():
            sys.exit("An instance of this daemon is already running")
        serve()
    else:
        sys.exit(tell())
