# Runs the page in a pseudo-terminal, prints its address and process, and closes the terminal when stdin ends.
import json, os, pty, re, sys

process, terminal = pty.fork()
if process == 0:
    os.execv(sys.argv[1], [sys.argv[1], "ui"])
text = ""
while not (found := re.search(r"http://\S+token=[\w-]+", text)):
    text += os.read(terminal, 4096).decode(errors="replace")
print(json.dumps({"url": found.group(), "process": process}), flush=True)
sys.stdin.read()
os.close(terminal)
print(json.dumps({"closed": True}), flush=True)
os.waitpid(process, 0)
