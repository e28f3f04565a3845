# shellcheck shell=bash
# A capture of `basic` (BRING) replayed at its original times, while somebody on the server damages one of its files as soon as that is as it is
# in the end. Each of the 20 runs must find it: exit code 1, in a reply or in the final check. corruptions.tsv has one line per run: the damage,
# the exit code, and what the report says first. Before and after them a run without damage must have exit code 0.
# settings: MEMORY=3072 LIMIT=3000
# shellcheck source=tests/lab/guest/replaying.sh
. /lab/guest/replaying.sh

# The file below data/w, what is done to it, and how: $f is its path, and put OFFSET writes what it reads from its input there.
corruptions='s8k|first byte|printf ! | put 0
s8k|last byte|printf ! | put 8191
s8k|group|chgrp 7 $f
s64k|middle byte|printf ! | put 15000
s64k|one byte shorter|truncate -s -1 $f
s64k|one byte longer|truncate -s +1 $f
s64k|mode|chmod 0777 $f
s256k|first byte|printf ! | put 0
s256k|last byte|printf ! | put 262143
s256k|a page of zeros|head -c 4096 /dev/zero | put 196608
s256k|a byte in the hole|printf ! | put 70000
s256k|two pages exchanged|(tail -c +4097 $f | head -c 4096; head -c 4096 $f) > /tmp/pages; put 0 < /tmp/pages
fa|removed|rm $f
fa|a byte that is not zero|printf ! | put 50000
clone8k|a byte|printf ! | put 100
clone8k|a directory instead|rm $f; mkdir $f
clone8k|renamed|mv $f $f.moved
sparse|first byte|printf ! | put 0
sparse|a byte in the hole|printf ! | put 50000
../../tiny/f|a byte|printf ! | put 5000'

# damage FILE HOW: does it on the server when the file is as it was after the first run.
damage() {
    on_server "f=$top/data/w/$1 reference=$reference/data/w/$1
        put() { dd of=\$f bs=1 seek=\$1 conv=notrunc status=none; }
        for _ in \$(seq 1000); do
            if cmp -s \$f \$reference && [ \"\$(stat -c '%s %a %u' \$f)\" = \"\$(stat -c '%s %a %u' \$reference)\" ]; then
                $2
                echo damaged
                exit
            fi
            sleep 0.02
        done
        echo 'never as in the end'" > /tmp/damage 2>&1
}

# replay NAME NUMBER [FILE WHAT HOW]: one run. Sets result.
replay() {
    local name=$1 number=$2
    local trace=$trace directory=$directory top=$top run=("${run[@]}")
    copy_seeded "$name" "$number"
    : > /tmp/damage
    [ $# -eq 2 ] || damage "$3" "$5" &
    result=0
    timeout 200 "$program" replay run "${run[@]}" --seeded --pace captured -T json "$trace" > "/shared/$name-$number.json" 2> "/shared/$name-$number.said" || result=$?
    wait $!
    printf '%s\t%s\t%s\t%s\n' "${3:-} ${4:-no damage}" "$result" "$(tail -n 1 /tmp/damage)" \
        "$(sed -n 's/.*"walk":\(.\{300\}\).*/\1/p' "/shared/$name-$number.json")" | tee -a /shared/corruptions.tsv
}

failed=() found=0
capture=$(echo /shared/brought/*)
name=$(basename "$capture" .gz)
name=${name%.pcap}
seed_capture "$capture" "$name" 1
replay "$name" 2
[ $result -eq 0 ] || failed+=('first run')
reference=/export/$name-2${top#"/export/$directory"}
number=2
while IFS='|' read -r file what how; do
    number=$((number + 1))
    replay "$name" $number "$file" "$what" "$how" < /dev/null
    # The report names the file: the final check its path, a step its name.
    if [ $result -eq 1 ] && grep -q '^damaged' /tmp/damage && grep -q "\"operation\":\"[^\"]*${file##*/}\"\|mismatched\":[1-9]" "/shared/$name-$number.json"; then found=$((found + 1)); else failed+=("$file $what"); fi
done <<< "$corruptions"
replay "$name" $((number + 1))
[ $result -eq 0 ] || failed+=('last run')
say "found $found of $((number - 2)); failed: ${failed[*]:-none}"
[ ${#failed[@]} -eq 0 ]
