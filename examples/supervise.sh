#!/bin/sh
# Runs a Tidemill program until its job has ended, and restarts it whenever it fails:
#     sh supervise.sh python job.py
# The program ends with sys.exit(run_main(main)), so that its exit code says whether a restart helps: 3 means that another
# driver runs the job, 4 that something must be fixed first. TIDEMILL_RETRY_SECONDS is the pause before a restart, by
# default 5.
while :; do
    "$@"
    code=$?
    case $code in
        0 | 3 | 4) exit $code ;;
    esac
    echo "supervise: the program ended with $code and is started again" >&2
    sleep "${TIDEMILL_RETRY_SECONDS:-5}"
done
