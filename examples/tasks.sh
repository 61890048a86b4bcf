#!/bin/sh
# Runs tasks that survive a kill at any moment: start the script again, and it continues with the first open task.
# Once all tasks are done, the next start performs all of them again, in a new round of the same run.
#
#   examples/tasks.sh [RUN]
#
# TASKS lists the names of the tasks. WORK is the command that performs a task; its last argument is the task's name.
set -eu
run=${1:-tasks}
tasks=${TASKS:-fetch parse build test publish}

# On the first call, create or rejoin the run, and execute this script again inside it. `--rejoin` continues an
# unfinished round, or starts a new one.
if [ -z "${TASKS_INSIDE:-}" ]; then
    TASKS_INSIDE=1 exec milepost run --rejoin --run "$run" --title "tasks that survive" -- "$0" "$run"
fi

for task in $tasks; do
    # Exit code 0 means that the task is done. On any other code, perform it, again if necessary.
    if milepost task is "$task" done; then
        continue
    fi
    # Exit code 0 means that the completion is on disk, so this task is not performed again in this round.
    milepost task run "$task" -- ${WORK:-echo working on} "$task"
    echo "done: $task"
done
echo "all done"
