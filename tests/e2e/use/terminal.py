"""terminal.py COLUMNS LATER -- COMMAND...: run the command on a terminal of so many columns, which is LATER columns wide
from its third painting on, and ask it to end some paintings later. Printed is a line "WIDTH TEXT" for each painting, WIDTH
being what the terminal was then; what is no painting goes to the file named in PAGE."""
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time

PAINT = b"\r\x1b[K"
SECONDS = 60


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def start(command, columns):
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        time.sleep(0.2)         # until the terminal has its width
        os.execvp(command[0], command)
    resize(terminal, columns)
    return child, terminal


def read_some(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:             # the other end is closed
        return b""


def watch(command, columns, later):
    """All that came, and where in it the terminal became another width."""
    child, terminal = start(command, columns)
    seen, resized, asked, due = b"", None, False, time.monotonic() + SECONDS
    while chunk := read_some(terminal):
        seen += chunk
        paintings = seen.count(PAINT)
        if resized is None and paintings >= 3:
            resize(terminal, later)
            resized = len(seen)
        if not asked and (paintings >= 7 or time.monotonic() > due):
            os.kill(child, signal.SIGTERM)
            asked = True
    os.waitpid(child, 0)
    return seen, resized if resized is not None else len(seen)


def main():
    columns, later, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]
    seen, resized = watch(command, columns, later)
    at, rest = 0, b""
    for number, piece in enumerate(seen.split(PAINT)):
        if number == 0 or b"\n" in piece:        # a line that stays, in place of the painting
            rest += piece
        else:
            print(columns if at <= resized else later, piece.decode())
        at += len(piece) + len(PAINT)
    with open(os.environ["PAGE"], "wb") as page:
        page.write(rest)


main()
