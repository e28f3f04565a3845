# shellcheck shell=bash
# The captures of the scenario say what the client says that it did, and break no rule of the RFCs.

# conforms NAME: the capture breaks no rule that a transport can break.
conforms() {
    # shellcheck disable=SC2154 # run says where the scripts and the results are
    python3 -S "$lab_scripts/afterwards/conformance.py" "$PROGRAM" "$out/$1.pcap"
    say "PASSED $1 is as the RFCs want it"
}

for journal in "$out"/*.journal; do
    name=$(basename "$journal" .journal)
    # Where the device has no windows nothing was called.
    [ -s "$journal" ] || continue
    "$PROGRAM" -T json --summary none "$out/$name.pcap" | python3 -S "$lab_scripts/afterwards/transport.py" "$journal"
    say "PASSED $name is what the client did"
    conforms "$name"
done
for name in errors recall; do conforms $name; done
