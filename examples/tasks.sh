#!/bin/sh
# Tasks that survive a kill at any moment: start the script again and it goes on with the first task that is not done.
#
#   examples/tasks.sh [RUN]
#
# WORK is the command that does a task; it gets the task's name. TASKS are their names.
set -eu
run=${1:-tasks}
tasks=${TASKS:-fetch parse build test publish}

# The first time round, open the run or go on with it, and come back here inside it.
if [ -z "${TASKS_INSIDE:-}" ]; then
    TASKS_INSIDE=1 exec milepost run --rejoin --run "$run" --title "tasks that survive" -- "$0" "$run"
fi

for task in $tasks; do
    # Exit 0 is yes. Anything else is no, and the task is done, again if need be.
    if milepost task is "$task" done; then
        continue
    fi
    # Exit 0 means that it is on disk: whatever happens from here on, this task is not done again.
    milepost task run "$task" -- ${WORK:-echo working on} "$task"
    echo "done: $task"
done
echo "all done"
