# shellcheck shell=bash
# Calls that the server refuses, from the test client (TOOL, the example transport_exercise): a long call beside a Read chunk
# that it does not read, and a Reply chunk that is too short, which it answers with ERR_CHUNK. Then a client without private
# data, and a port that nothing listens on.
# settings: GRACE_ENDS=never
exercise=/shared/bin/transport_exercise
# A folder whose READDIR takes a long reply, and the file that is written to.
on_server ': > /export/data/many300/exercise; chmod 666 /export/data/many300/exercise; sync'
start_recording
# shellcheck disable=SC2154 # client.sh says which host
"$exercise" errors "$host:20049" /data/many300/exercise > /shared/errors.said || {
    cat /shared/errors.said
    false
}
stop_recording
cat /shared/errors.said
grep -q '^ok a short Reply chunk: ERR_CHUNK$' /shared/errors.said
