# shellcheck shell=bash
# What was measured, in words.
# shellcheck disable=SC2154 # run says where the scripts and the results are
python3 -S "$lab_scripts/afterwards/speed.py" "$out/speed"
