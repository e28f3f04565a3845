complete -c nfsrdma-inspect -s r -l read -d 'Capture file, the same as FILE; may be given again' -r -F
complete -c nfsrdma-inspect -l view -d 'What a line is' -r -f -a "transactions\t'One RPC with its Call, its Reply and the chunks between them'
frames\t'One frame of the capture'"
complete -c nfsrdma-inspect -s T -l format -d 'Form of the lines' -r -f -a "text\t'For people'
json\t'JSON Lines: an object a line'"
complete -c nfsrdma-inspect -s c -l count -d 'Stop after COUNT lines' -r
complete -c nfsrdma-inspect -s t -l time -d 'How times are written' -r -f -a "r\t'Seconds since the first frame'
d\t'Seconds since the line before'
a\t'Time of day, UTC'
ad\t'Date and time of day, UTC'
e\t'Seconds since 1970-01-01, UTC'"
complete -c nfsrdma-inspect -l summary -d 'Form of the summary after the lines [default: that of the lines]' -r -f -a "text\t'For people'
json\t'A JSON object on one line'
none\t'No summary'"
complete -c nfsrdma-inspect -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Also in a pipe or a file'
never\t'Nowhere'"
complete -c nfsrdma-inspect -l max-connections -d 'Connections; then those that were silent longest are forgotten' -r
complete -c nfsrdma-inspect -l max-open-transactions -d 'Transactions that wait for their Reply; then the oldest are given up' -r
complete -c nfsrdma-inspect -l max-lingering-transactions -d 'Transactions that are done, and wait for late copies of their messages' -r
complete -c nfsrdma-inspect -l max-set-ups -d 'Connections that are being set up' -r
complete -c nfsrdma-inspect -l max-fragment-bytes -d 'Bytes of IP fragments that wait for the others of their datagram' -r
complete -c nfsrdma-inspect -l max-kept-bytes -d 'Bytes of chunks that are kept until they are decoded' -r
complete -c nfsrdma-inspect -s V -l tree -d 'Show each line with its whole tree, down to the last field'
complete -c nfsrdma-inspect -s q -l quiet -d 'Leave out the lines, and show the summary alone'
complete -c nfsrdma-inspect -l check-icrc -d 'Check the invariant CRC of every packet, and count those that are wrong'
complete -c nfsrdma-inspect -l version -d 'Print the version'
complete -c nfsrdma-inspect -s h -l help -d 'Print help (see more with \'--help\')'
