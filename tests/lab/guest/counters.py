"""Compares the program's counts of a capture with the counters of the client's kernel.

Arguments: the program's transactions (JSON Lines), and /proc/self/mountstats before and after the end of the capture, which are
the same but for what the client did meanwhile of its own accord. Calls, bytes sent and bytes received of each operation must
lie between the two, and so must the bytes that came back in Write and Reply chunks.
"""

import collections
import json
import sys

# Operations of the client as a whole: each mount has the same counters of them.
CLIENT_WIDE = {
    "NULL", "EXCHANGE_ID", "CREATE_SESSION", "RECLAIM_COMPLETE", "SETCLIENTID", "SETCLIENTID_CONFIRM", "GET_LEASE_TIME",
}  # fmt: skip

# The kernel's names for several uses of one operation of NFSv4, and the operation.
USES = {
    "OPEN_NOATTR": "OPEN", "SYMLINK": "CREATE", "SETACL": "SETATTR", "LOOKUP_ROOT": "GETATTR", "SERVER_CAPS": "GETATTR",
    "GETACL": "GETATTR", "FSINFO": "GETATTR", "PATHCONF": "GETATTR", "STATFS": "GETATTR", "GET_LEASE_TIME": "GETATTR",
    "GET_DIR_DELEGATION": "GETATTR",
}  # fmt: skip

COUNTERS = ("Calls", "bytes sent", "bytes received")


def kernel(path):
    """Operation -> its counters, and the bytes that came back in chunks (None without RDMA)."""
    operations = collections.defaultdict(lambda: [0, 0, 0])
    mounts, returned, nfs4 = 0, None, False
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("device "):
                mounts += 1
                nfs4 = " fstype nfs4 " in line
            key, _, values = line.strip().partition(":")
            values = values.split()
            # The transport's line is the same under each mount, and there is one for each connection.
            if key == "xprt" and values[0] == "rdma" and mounts == 1:
                returned = (returned or 0) + int(values[15])
            if len(values) == 9 and key.isupper() and int(values[0]):
                if mounts > 1 and key in CLIENT_WIDE:
                    continue
                counters = operations[USES.get(key, key) if nfs4 else key]
                for place, column in enumerate((0, 3, 4)):
                    counters[place] += int(values[column])
    return operations, returned


def program(path):
    """The same, as the program has it; and how many transactions are not complete."""
    with open(path, encoding="utf-8") as text:
        lines = [json.loads(line) for line in text]
    transactions = [line for line in lines if line["kind"] == "transaction"]
    # A call that goes once more after a reconnect is one call to the kernel, whose bytes it counts as often as they are sent.
    again = {line["retry_of"] for line in transactions if line.get("retry_of")}
    operations = collections.defaultdict(lambda: [0, 0, 0])
    returned = incomplete = 0
    for line in transactions:
        sent_again = line["index"] in again
        incomplete += not line["complete"] and not sent_again
        if line["direction"] != "forward" or line["call"] is None:
            continue
        if line["transport"] not in ("tcp", "udp"):
            chunks = line["write_chunks"] + ([line["reply_chunk"]] if line["reply_chunk"] else [])
            returned += sum(segment["returned"] or 0 for chunk in chunks for segment in chunk["segments"])
        if line["program_name"] == "NFS":
            name = line["operation"]
            counters = operations[USES.get(name, name) if line["version"] == 4 else name]
            counters[0] += not sent_again
            # Over TCP the kernel counts the record mark of what it sends, too.
            counters[1] += line["call"]["rpc_length"] + (4 if line["transport"] == "tcp" else 0)
            counters[2] += line["reply"]["rpc_length"] if line["reply"] else 0
    return operations, returned, incomplete


def main():
    ours, our_returned, incomplete = program(sys.argv[1])
    before, returned_before = kernel(sys.argv[2])
    theirs, their_returned = kernel(sys.argv[3])
    wrong = []
    for name in sorted(ours.keys() | theirs.keys()):
        for what, least, counted, told in zip(COUNTERS, before[name], theirs[name], ours[name]):
            if not least <= told <= counted:
                wrong.append(f"{name}: the kernel counted {counted} {what}, the program {told}")
    if their_returned is not None and not returned_before <= our_returned <= their_returned:
        wrong.append(f"chunks: the kernel was returned {their_returned} bytes, the program saw {our_returned}")
    if (before, returned_before) != (theirs, their_returned):
        print("the client went on while the capture ended")
    if not theirs:
        wrong.append("the kernel counted nothing")
    if incomplete:
        wrong.append(f"{incomplete} transactions are not complete")
    for difference in wrong:
        print(difference)
    calls = sum(counters[0] for counters in theirs.values())
    print(f"{calls} calls of {len(theirs)} operations: {len(wrong)} differences from the kernel's counters")
    sys.exit(1 if wrong else 0)


main()
