# shellcheck shell=bash
# What was measured, in words.
# shellcheck disable=SC2154 # run says where the scripts, the program and the results are
python3 -S "$lab_scripts/afterwards/speed.py" "$out/speed"
for capture in "$out"/*-replay.pcap; do
    name=$(basename "$capture" -replay.pcap)
    for of in "$name" "$name-replay"; do
        "$PROGRAM" -T json --summary none "$out/$of.pcap" | python3 -S "$lab_scripts/afterwards/phases.py" "$of"
    done
done
