# The process of an agent: calls `milepost hook AGENT` for every line on its standard input, and prints the
# exit code, the output and the errors. Milepost sees this process as the owner of the session.
import json
import subprocess
import sys

program, agent = sys.argv[1:]
for line in sys.stdin:
    done = subprocess.run([program, "hook", agent], input=line, text=True, capture_output=True)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
