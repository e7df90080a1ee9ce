#!/bin/sh
# Runs a Tidemill program until its job has ended, and starts it again whenever it dies:
#     sh supervise.sh python job.py
# The program ends with sys.exit(run_main(main)), so that its exit code says whether another start makes sense:
# 3 means that another driver has the job, 4 that something must be mended first. TIDEMILL_RETRY_SECONDS is the pause
# before a start, 5 if it is not set.
while :; do
    "$@"
    code=$?
    case $code in
        0 | 3 | 4) exit $code ;;
    esac
    echo "supervise: the program ended with $code and is started again" >&2
    sleep "${TIDEMILL_RETRY_SECONDS:-5}"
done
