# shellcheck shell=bash
# The program in a guest beside a server: PROGRAM (a file of the host; else the release build) is run with ARGUMENTS, as by a
# shell. What it says comes out as program.out and program.err; its exit code must be EXPECT (0).
# keys: ARGUMENTS TIMEOUT EXPECT
start_recording
result=0
(
    cd /shared
    PATH=/shared/bin:$PATH
    export PATH
    eval "timeout ${TIMEOUT:-60} nfsrdma-inspect ${ARGUMENTS:---version}"
) > /shared/program.out 2> /shared/program.err || result=$?
stop_recording
say "the program ended with $result"
head -n 50 /shared/program.out /shared/program.err
[ "$result" -eq "${EXPECT:-0}" ]
