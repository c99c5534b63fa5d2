"""terminal.py COLUMNS LATER -- COMMAND...: run the command on a terminal of so many columns, which is LATER columns wide
from its third painting on, and ask it to end when some have come that are as wide as that. Printed is a line "WIDTH TEXT"
for each painting, WIDTH being what the terminal was then: LATER from the first one on that shows it, since some are under
way when the width changes. What is no painting goes to the file named in PAGE."""
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
        resize(pty.STDIN_FILENO, columns)
        os.execvp(command[0], command)
    return child, terminal


def read_some(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:             # the other end is closed
        return b""


def shows(painting, columns, later):
    """Whether it was painted for the later width: a painting is nearly as wide as the terminal."""
    return len(painting) < later if later < columns else len(painting) >= columns


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
        shown = 0 if resized is None else sum(shows(painting, columns, later)
                                              for painting in seen[resized:].split(PAINT)[1:-1])
        if not asked and (shown >= 4 or time.monotonic() > due):
            os.kill(child, signal.SIGTERM)
            asked = True
    os.waitpid(child, 0)
    return seen, resized if resized is not None else len(seen)


def main():
    columns, later, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]
    seen, resized = watch(command, columns, later)
    at, rest, width = 0, b"", columns
    for number, piece in enumerate(seen.split(PAINT)):
        if number == 0 or b"\n" in piece:        # a line that stays, in place of the painting
            rest += piece
        else:
            width = later if at > resized and shows(piece, columns, later) else width
            print(width, piece.decode())
        at += len(piece) + len(PAINT)
    with open(os.environ["PAGE"], "wb") as page:
        page.write(rest)


main()
