# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_nfsrdma_inspect_global_optspecs
    string join \n i/interface= f/capture-filter= s/snapshot-length= B/buffer-size= p/no-promiscuous-mode immediate a/autostop= Z/user= max-queue-bytes= D/list-interfaces r/read= Y/display-filter= view= V/tree T/format= e/field= E/layout= x/bytes c/count= l/line-buffered q/quiet w/write= P/print t/time= summary= filehandles= n/no-names color= check-icrc max-connections= max-open-transactions= max-lingering-transactions= max-message-bytes= max-set-ups= max-streams= max-hole-bytes= max-stream-bytes= max-part-bytes= max-early-bytes= max-fragment-bytes= max-kept-bytes= max-write-bytes= version h/help
end

function __fish_nfsrdma_inspect_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_nfsrdma_inspect_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_nfsrdma_inspect_using_subcommand
    set -l cmd (__fish_nfsrdma_inspect_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s i -l interface -d 'Capture on this interface: one of Ethernet, \'any\', or an RDMA device where libpcap can (see -D)' -r -f
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s f -l capture-filter -d 'Capture what this filter of pcap-filter(7) selects [default: RDMA, RPC, and tunnels that may hold it]' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s s -l snapshot-length -d 'Keep this many bytes of each packet' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s B -l buffer-size -d 'Memory for packets that the kernel holds until they are fetched, in MiB' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s a -l autostop -d 'Stop after this: duration:SECONDS or packets:COUNT; of \'capture\' also filesize:KB and files:COUNT' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s Z -l user -d 'With the rights of root, become this user when the capture is open [default: who called sudo, else nobody]' -r -f -a "(__fish_complete_users)"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-queue-bytes -d 'Memory for packets that wait to be decoded or written; then new ones are dropped, and counted' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s r -l read -d 'Capture file, the same as FILE; may be given again' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s Y -l display-filter -d 'Show what a display filter selects, in Wireshark\'s language: -Y \'nfs.opcode == READ\'' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l view -d 'What a line is' -r -f -a "transactions\t'One RPC with its Call, its Reply and the chunks between them'
frames\t'One frame of the capture'
operations\t'One operation, with how many there were, how fast, how long they took and how many failed'
connections\t'One connection as it closes, with what went over it, its credits and its state; -V tells its set-up'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s T -l format -d 'Form of the lines' -r -f -a "text\t'For people'
json\t'JSON Lines: an object a line'
fields\t'The values of the fields that -e names, as tshark writes them'
csv\t'The same as comma-separated values (RFC 4180)'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s e -l field -d 'Show the values of this field, with -T fields, csv or json; may be given again' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s E -l layout -d 'How fields are written, as in tshark: header=y|n, separator=/t|/s|LETTER, quote=d|s|n, occurrence=f|l|a, aggregator=,|/s|LETTER' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s c -l count -d 'Stop after COUNT lines' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s w -l write -d 'Write the frames of what is shown to FILE as pcapng, each with comments that say what it is to which Transaction' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s t -l time -d 'How times are written' -r -f -a "r\t'Seconds since the first frame'
d\t'Seconds since the line before'
a\t'Time of day, UTC'
ad\t'Date and time of day, UTC'
e\t'Seconds since 1970-01-01, UTC'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l summary -d 'Form of the summary after the lines [default: that of the lines]' -r -f -a "text\t'For people'
json\t'A JSON object on one line'
none\t'No summary'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l filehandles -d 'How files are told' -r -f -a "names\t'By path; by hash where no name was seen'
hash\t'By the CRC-32 of the filehandle, Wireshark\'s nfs.fh.hash'
hex\t'By all bytes of the filehandle'
none\t'Not at all: no paths'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Also in a pipe or a file'
never\t'Nowhere'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-connections -d 'Connections; then those that were silent longest are forgotten' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-open-transactions -d 'Transactions that wait for their Reply; then the oldest are given up' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-lingering-transactions -d 'Transactions that are done, and wait for late copies of their messages' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-message-bytes -d 'Bytes of the messages of all Transactions; then those that are done are given out, and then the oldest' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-set-ups -d 'Connections that are being set up' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-streams -d 'Streams of TCP; then those that were silent longest are forgotten' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-hole-bytes -d 'Bytes of one TCP stream that wait behind a hole; then the hole is given up' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-stream-bytes -d 'Bytes that all TCP streams hold, behind holes and in messages that are not whole yet' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-part-bytes -d 'Bytes of RDMA messages that are not whole yet' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-early-bytes -d 'Bytes of RDMA packets that were captured before what tells their place' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-fragment-bytes -d 'Bytes of IP fragments that wait for the others of their datagram' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-kept-bytes -d 'Bytes of chunks that are kept until they are decoded' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l max-write-bytes -d 'Bytes of what waits until it is known which Transaction it belongs to, with -w' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s p -l no-promiscuous-mode -d 'Leave the interface out of promiscuous mode: capture what is for this host alone'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l immediate -d 'Take each packet from the kernel at once: up to 10 ms earlier, for more work a packet'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s D -l list-interfaces -d 'List the interfaces that can be captured on, and what each can see'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s V -l tree -d 'Show each line with its whole tree, down to the last field'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s x -l bytes -d 'Follow each line with its bytes, in hexadecimal and as text'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s l -l line-buffered -d 'Give each line out at once, also from a file or a pipe, when its Reply was acknowledged'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s q -l quiet -d 'Leave out the lines, and show the summary alone'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s P -l print -d 'With -w, show lines too'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s n -l no-names -d 'Do not resolve addresses and ports to names. They never are, so this changes nothing; for file names see --filehandles'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l check-icrc -d 'Check the invariant CRC of every packet, and count those that are wrong'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -l version -d 'Print the version'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "capture" -d 'Record what an interface sees, as pcapng'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "check" -d 'Check captures against their baselines, for CI'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "compare" -d 'Compare two captures or traces, and show what differs'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "fields" -d 'List the fields that display filters can name'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "probe" -d 'Ask a server what it offers'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "replay" -d 'Drive the work of a capture again'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "export" -d 'Write Parquet tables of captures, for DuckDB, Spark and others'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "tui" -d 'Look at a capture in the terminal: Transactions, their fields and bytes, operations, connections, files, charts'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_needs_command" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s i -l interface -d 'Capture on this interface: one of Ethernet, \'any\', or an RDMA device where libpcap can (see -D)' -r -f
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s f -l capture-filter -d 'Capture what this filter of pcap-filter(7) selects [default: RDMA, RPC, and tunnels that may hold it]' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s s -l snapshot-length -d 'Keep this many bytes of each packet' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s B -l buffer-size -d 'Memory for packets that the kernel holds until they are fetched, in MiB' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s a -l autostop -d 'Stop after this: duration:SECONDS or packets:COUNT; of \'capture\' also filesize:KB and files:COUNT' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s Z -l user -d 'With the rights of root, become this user when the capture is open [default: who called sudo, else nobody]' -r -f -a "(__fish_complete_users)"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -l max-queue-bytes -d 'Memory for packets that wait to be decoded or written; then new ones are dropped, and counted' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s w -l write -d 'Write to FILE; \'-\' is standard output' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s c -l count -d 'Stop after COUNT packets' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s b -l ring-buffer -d 'Begin another file, as in tshark: filesize:KB, duration:SECONDS, packets:COUNT, interval:SECONDS; files:COUNT keeps the latest' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s p -l no-promiscuous-mode -d 'Leave the interface out of promiscuous mode: capture what is for this host alone'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -l immediate -d 'Take each packet from the kernel at once: up to 10 ms earlier, for more work a packet'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s q -l quiet -d 'Say nothing but what is wrong'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand capture" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l server -d 'Replay the captures against this server, and compare with what was recorded: rdma://HOST/EXPORT or tcp://HOST/EXPORT' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l rules -d 'A file of rules for --server: what else may differ, and why (docs/replay.md)' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l min-coverage -d 'With --server, percent of the steps that must be replayed, of those that are not skipped (default: 90)' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l junit -d 'Write a report as JUnit XML: a suite a capture, a case an operation' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l filter -d 'Run what a display filter selects, and the steps that give it filehandles, stateids and sessions, alone' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l gss -d 'Calls that RPCSEC_GSS signed; what it encrypted cannot be replayed in any way' -r -f -a "as-sys\t'They are sent with AUTH_SYS, as root'
skip\t'They are not sent'
reestablish\t'They are signed with a context of this run, by Kerberos, as whoever runs it'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l html -d 'Write a report as a page of HTML, with recorded and replayed latency side by side' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l record -d 'Write what the run sends and receives as a trace, for `compare`' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l record-data -d 'What becomes of file data in the recording' -r -f -a "keep\t'It is kept, equal data once'
hash\t'Its hash is kept, which `compare` needs'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -s c -l count -d 'Show so many differences of each capture (default: 10, and with -T json all); all are counted' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -s T -l format -d 'Form of the output' -r -f -a "text\t'For people'
json\t'JSON Lines: an object a line'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Also in a pipe or a file'
never\t'Nowhere'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l bless -d 'Write the baselines instead; the settings that stand in one stay'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l no-walk -d 'With --server, do not look at the files in the end'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l strict -d 'With --server, tolerate nothing'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -l same-server -d 'With --server, use the server though the captures are of it'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -s q -l quiet -d 'Say nothing of captures that are as they were'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand compare" -l ignore -d 'Leave these differences out: kinds, fields or operations' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand compare" -l only -d 'Show these differences alone: kinds, fields or operations' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand compare" -s c -l count -d 'Show so many differences (default: 20, and with -T json all); all are counted' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand compare" -s T -l format -d 'Form of the output' -r -f -a "text\t'For people'
json\t'JSON Lines: an object a line'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand compare" -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Also in a pipe or a file'
never\t'Nowhere'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand compare" -l strict -d 'Compare everything as it is: order, identities, times and counters too'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand compare" -s q -l quiet -d 'Say nothing; the exit code tells'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand fields" -s T -l format -d 'Form of the list' -r -f -a "text\t'For people'
json\t'JSON Lines: an object a field'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand fields" -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Also in a pipe or a file'
never\t'Nowhere'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand fields" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand probe" -l server -d 'The server: rdma://HOST[:20049]/EXPORT or tcp://HOST[:2049]/EXPORT, with ?vers=3|4.0|4.1|4.2 and &mountport=PORT' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand probe" -l timeout -d 'Seconds that each step may take: connecting, a Call, the NULL Calls of which the time is taken' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand probe" -l credits -d 'Credits to ask for, over RDMA' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand probe" -l inline -d 'Bytes that this side can send and receive inline, over RDMA: 1024 to 262144' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand probe" -s T -l format -d 'Form of the output' -r -f -a "text\t'For people'
json\t'JSON Lines: an object a line'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand probe" -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Also in a pipe or a file'
never\t'Nowhere'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand probe" -l remote-invalidation -d 'Announce over RDMA that the server may invalidate handles, and show whether it does'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and not __fish_seen_subcommand_from compile plan seed run learn help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and not __fish_seen_subcommand_from compile plan seed run learn help" -f -a "compile" -d 'Make a trace of captures, to be run again'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and not __fish_seen_subcommand_from compile plan seed run learn help" -f -a "plan" -d 'Say what a run of a trace will do, and what not, and why'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and not __fish_seen_subcommand_from compile plan seed run learn help" -f -a "seed" -d 'Make the tree that a trace expects, on a server'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and not __fish_seen_subcommand_from compile plan seed run learn help" -f -a "run" -d 'Run a trace against a server, and compare'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and not __fish_seen_subcommand_from compile plan seed run learn help" -f -a "learn" -d 'Learn what differs on a server that is known to be good'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and not __fish_seen_subcommand_from compile plan seed run learn help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from compile" -s o -l output -d 'Write the trace to this file' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from compile" -l data -d 'What becomes of file data' -r -f -a "keep\t'It is kept, equal data once'
hash\t'Its hash is kept, and a run sends other data'
key\t'A run makes data from a key, the same for the same place of a file'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from compile" -l key -d 'The key that data is made from' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from compile" -s Y -l display-filter -d 'Compile what a display filter selects, alone' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from compile" -s q -l quiet -d 'Say nothing of what was compiled'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from compile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from plan" -l filter -d 'Run what a display filter selects, and the steps that give it filehandles, stateids and sessions, alone' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from plan" -l gss -d 'Calls that RPCSEC_GSS signed; what it encrypted cannot be replayed in any way' -r -f -a "as-sys\t'They are sent with AUTH_SYS, as root'
skip\t'They are not sent'
reestablish\t'They are signed with a context of this run, by Kerberos, as whoever runs it'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from plan" -s c -l count -d 'Show so many objects of the tree' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from plan" -s T -l format -d 'Form of the output' -r -f -a "text\t'For people'
json\t'JSON Lines: an object a line'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from plan" -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Also in a pipe or a file'
never\t'Nowhere'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -l server -d 'The server: rdma://HOST[:20049]/EXPORT or tcp://HOST[:2049]/EXPORT, with ?vers=3|4.0|4.1|4.2 and &mountport=PORT' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -l directory -d 'The directory of the run, in the export; made where it is not there (default: the name of the trace, and letters that no other run has)' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -l timeout -d 'Seconds that a connection and a Reply may take' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -l credits -d 'Credits to ask for, over RDMA' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -l inline -d 'Bytes that this side can send and receive inline, over RDMA: 1024 to 262144' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -l into-existing -d 'Use the directory though something is in it'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -l same-server -d 'Use the server though the capture is of it'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -s q -l quiet -d 'Say nothing of what was made'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from seed" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l server -d 'The server: rdma://HOST[:20049]/EXPORT or tcp://HOST[:2049]/EXPORT, with ?vers=3|4.0|4.1|4.2 and &mountport=PORT' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l directory -d 'The directory of the run, in the export; made where it is not there (default: the name of the trace, and letters that no other run has)' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l timeout -d 'Seconds that a connection and a Reply may take' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l credits -d 'Credits to ask for, over RDMA' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l inline -d 'Bytes that this side can send and receive inline, over RDMA: 1024 to 262144' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l order -d 'Order of the steps: dependence (a step waits for what it depends on), trace (as much at once as in the capture) or conservative (one at a time of each client)' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l pace -d 'When steps go that may: asap, original, x2.5, rate=1000, think (as long after the step before as in the capture), depth (no more in flight than in the capture)' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l clients -d 'Copies of the captured clients, each with a directory of its own' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l connections -d 'Connections of each client, at most (default: as many as in the capture)' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l window -d 'Steps that are looked at ahead, and in flight at most' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l chunks -d 'Chunks over RDMA: as the connection allows, or as in the capture' -r -f -a "optimal\t'Those that the connection needs'
captured\t'Those that it had in the capture'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l wants -d 'Delegations that an OPEN wants: what it was granted in the capture, or what it asked for there' -r -f -a "granted\t'What it was granted in the capture'
asked\t'What it asked for there'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l filter -d 'Run what a display filter selects, and the steps that give it filehandles, stateids and sessions, alone' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l gss -d 'Calls that RPCSEC_GSS signed; what it encrypted cannot be replayed in any way' -r -f -a "as-sys\t'They are sent with AUTH_SYS, as root'
skip\t'They are not sent'
reestablish\t'They are signed with a context of this run, by Kerberos, as whoever runs it'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l html -d 'Write a report as a page of HTML, with recorded and replayed latency side by side' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l record -d 'Write what the run sends and receives as a trace, for `compare`' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l record-data -d 'What becomes of file data in the recording' -r -f -a "keep\t'It is kept, equal data once'
hash\t'Its hash is kept, which `compare` needs'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l without -d 'Rules that do not hold: what they would tolerate is a mismatch' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l rules -d 'A file of rules: what else may differ, and why (docs/replay.md)' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l min-coverage -d 'Percent of the steps that must be replayed, of those that are not skipped, and of what the final check must cover' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l max-time -d 'Seconds that the run may take; then it ends with exit code 3 (default: an hour, or ten times as long as the capture)' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -s c -l count -d 'Mismatches that are shown' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l junit -d 'Write a report as JUnit XML: a case an operation' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -s T -l format -d 'Form of the output' -r -f -a "text\t'For people'
json\t'JSON Lines: an object a line'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Also in a pipe or a file'
never\t'Nowhere'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l into-existing -d 'Use the directory though something is in it'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l same-server -d 'Use the server though the capture is of it'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l strict -d 'Tolerate nothing'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l no-walk -d 'Do not look at the files in the end'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -s q -l quiet -d 'Say nothing; the exit code tells'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -l seeded -d 'The tree is there: seeded before into --directory'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -l server -d 'The server: rdma://HOST[:20049]/EXPORT or tcp://HOST[:2049]/EXPORT, with ?vers=3|4.0|4.1|4.2 and &mountport=PORT' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -l directory -d 'The directory of the run, in the export; made where it is not there (default: the name of the trace, and letters that no other run has)' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -l timeout -d 'Seconds that a connection and a Reply may take' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -l credits -d 'Credits to ask for, over RDMA' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -l inline -d 'Bytes that this side can send and receive inline, over RDMA: 1024 to 262144' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -s o -l output -d 'The file of rules (default: standard output)' -r -F
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -l into-existing -d 'Use the directory though something is in it'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -l same-server -d 'Use the server though the capture is of it'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from learn" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from help" -f -a "compile" -d 'Make a trace of captures, to be run again'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from help" -f -a "plan" -d 'Say what a run of a trace will do, and what not, and why'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from help" -f -a "seed" -d 'Make the tree that a trace expects, on a server'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run a trace against a server, and compare'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from help" -f -a "learn" -d 'Learn what differs on a server that is known to be good'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand replay; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand export" -l to -d 'Where the tables are, or shall be' -r -f -a "(__fish_complete_directories)"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand export" -l name -d 'All files are one capture of this name, merged by time' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand export" -l max-connections -d 'Connections that are remembered; then those that were silent longest are forgotten' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s i -l interface -d 'Capture on this interface: one of Ethernet, \'any\', or an RDMA device where libpcap can (see -D)' -r -f
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s f -l capture-filter -d 'Capture what this filter of pcap-filter(7) selects [default: RDMA, RPC, and tunnels that may hold it]' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s s -l snapshot-length -d 'Keep this many bytes of each packet' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s B -l buffer-size -d 'Memory for packets that the kernel holds until they are fetched, in MiB' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s a -l autostop -d 'Stop after this: duration:SECONDS or packets:COUNT; of \'capture\' also filesize:KB and files:COUNT' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s Z -l user -d 'With the rights of root, become this user when the capture is open [default: who called sudo, else nobody]' -r -f -a "(__fish_complete_users)"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l max-queue-bytes -d 'Memory for packets that wait to be decoded or written; then new ones are dropped, and counted' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s Y -l display-filter -d 'Show what a display filter selects' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s t -l time -d 'How times are written' -r -f -a "r\t'Seconds since the first frame'
d\t'Seconds since the line before'
a\t'Time of day, UTC'
ad\t'Date and time of day, UTC'
e\t'Seconds since 1970-01-01, UTC'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l filehandles -d 'How files are told' -r -f -a "names\t'By path; by hash where no name was seen'
hash\t'By the CRC-32 of the filehandle, Wireshark\'s nfs.fh.hash'
hex\t'By all bytes of the filehandle'
none\t'Not at all: no paths'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l theme -d 'Colours; NO_COLOR is obeyed' -r -f -a "auto\t'Colours for a dark background; for a light one where COLORFGBG says so'
dark\t'Colours for a dark background'
light\t'Colours for a light background'
none\t'No colours: bold, dim and reversed only'"
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l slow -d 'A Transaction is slow that takes as many milliseconds [default: 4 times the median of its operation]' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l memory -d 'Bytes of memory for the list; what is forgotten is read again from the file' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l frame-memory -d 'Bytes of memory for the frames that come from an interface or a pipe, and cannot be read again' -r
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s p -l no-promiscuous-mode -d 'Leave the interface out of promiscuous mode: capture what is for this host alone'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l immediate -d 'Take each packet from the kernel at once: up to 10 ms earlier, for more work a packet'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l ascii -d 'No characters beyond ASCII, as in a locale that is not UTF-8'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -l no-mouse -d 'Leave the mouse to the terminal, which selects text with it'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand tui" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "capture" -d 'Record what an interface sees, as pcapng'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "check" -d 'Check captures against their baselines, for CI'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "compare" -d 'Compare two captures or traces, and show what differs'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "fields" -d 'List the fields that display filters can name'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "probe" -d 'Ask a server what it offers'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "replay" -d 'Drive the work of a capture again'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "export" -d 'Write Parquet tables of captures, for DuckDB, Spark and others'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "tui" -d 'Look at a capture in the terminal: Transactions, their fields and bytes, operations, connections, files, charts'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and not __fish_seen_subcommand_from capture check compare fields probe replay export tui help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and __fish_seen_subcommand_from replay" -f -a "compile" -d 'Make a trace of captures, to be run again'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and __fish_seen_subcommand_from replay" -f -a "plan" -d 'Say what a run of a trace will do, and what not, and why'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and __fish_seen_subcommand_from replay" -f -a "seed" -d 'Make the tree that a trace expects, on a server'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and __fish_seen_subcommand_from replay" -f -a "run" -d 'Run a trace against a server, and compare'
complete -c nfsrdma-inspect -n "__fish_nfsrdma_inspect_using_subcommand help; and __fish_seen_subcommand_from replay" -f -a "learn" -d 'Learn what differs on a server that is known to be good'
