"""Compares the program's decoding of a capture with the journal of the client.

Standard input: the program's transactions (JSON Lines). Argument: the journal of transport_exercise, a line a call. Each call of
the one must be in the other, once, with the same form, the same bytes and the same chunks, both ways. A call that the client gave
up with its connection, because no reply came, is held to what was sent.
"""

import json
import sys

NAMES = (
    "form", "bytes of the call", "bytes in its Send", "bytes fetched", "Read segments", "Write segments", "Reply segments",
    "form of the reply", "bytes of the reply", "bytes by the Write chunk",
)  # fmt: skip
REPLY = NAMES.index("form of the reply")


def segments(chunks):
    return [segment for chunk in chunks for segment in chunk["segments"]]


def told(line):
    """A transaction, as the journal has it."""
    call, reply = line["call"], line["reply"]
    read, write = segments(line["read_chunks"]), segments(line["write_chunks"])
    returned = segments([line["reply_chunk"]]) if line["reply_chunk"] else []
    form = call["rpcrdma"]["proc"]
    found = [
        form, call["rpc_length"], 0 if form == "RDMA_NOMSG" else call["length"],
        sum(segment["moved"] for segment in read), len(read), len(write), len(returned),
    ]  # fmt: skip
    if reply is None or reply["rpcrdma"]["proc"] == "RDMA_ERROR":
        return found + ["-"] * 3
    payload = sum(segment["returned"] for segment in write)
    if payload != sum(segment["moved"] for segment in write):
        found[-1] = "not what was moved"
    whole = sum(segment["returned"] for segment in returned)
    long = reply["rpcrdma"]["proc"] == "RDMA_NOMSG"
    return found + [reply["rpcrdma"]["proc"], whole if long else reply["length"], payload]


def noted(words):
    """A line of the journal: its XID, the same values, and the handle that came invalidated."""
    values = [word if word == "-" or word.startswith("RDMA") else int(word) for word in words[1:11]]
    return words[0], values, words[11]


def main():
    journal = {}
    with open(sys.argv[1], encoding="ascii") as lines:
        for line in lines:
            xid, values, invalidated = noted(line.split())
            if xid in journal:
                sys.exit(f"{xid} is in the journal twice")
            journal[xid] = values, invalidated
    wrong, seen = [], set()
    bytes_moved = invalidations = unanswered = 0
    for text in sys.stdin:
        line = json.loads(text)
        if line["kind"] != "transaction" or line["program_name"] != "NFS":
            continue
        xid = line["xid"]
        if xid not in journal:
            wrong.append(f"{xid}: not in the journal")
            continue
        if xid in seen:
            wrong.append(f"{xid}: twice")
        seen.add(xid)
        values, invalidated = journal[xid]
        given_up = values[REPLY] == "-"
        # A Reply may have come just when nobody waited for it any more.
        held = REPLY if given_up else len(NAMES)
        for name, ours, theirs in list(zip(NAMES, told(line), values))[:held]:
            if ours != theirs:
                wrong.append(f"{xid}: {name}: the client has {theirs}, the program {ours}")
        if not line["complete"] and not given_up:
            wrong.append(f"{xid}: not complete: {line['missing']}")
        wrong += [f"{xid}: {found}" for found in line["findings"] if found["severity"] == "error"]
        handles = [segment["handle"] for segment in segments(line["read_chunks"] + line["write_chunks"])]
        if line["reply_chunk"]:
            handles += [segment["handle"] for segment in segments([line["reply_chunk"]])]
        if invalidated != "-":
            invalidations += 1
            if invalidated not in handles:
                wrong.append(f"{xid}: {invalidated} was invalidated, which is none of {handles}")
        unanswered += given_up
        bytes_moved += values[3] + (values[9] if values[9] != "-" else 0)
    wrong += [f"{xid}: not in the capture" for xid in journal.keys() - seen]
    for difference in wrong[:50]:
        print(difference)
    print(
        f"{len(seen)} calls, {unanswered} of them given up, {bytes_moved} bytes in Read and Write chunks, "
        f"{invalidations} handles invalidated: "
        f"{len(wrong)} differences from what the client did"
    )
    sys.exit(1 if wrong or not seen else 0)


main()
