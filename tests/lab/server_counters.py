#!/usr/bin/env python3
"""server_counters.py PROGRAM ORIGINAL BEFORE AFTER WHOLE ALONE

Compares what nfsd counted during a replay with what it counted while the capture was recorded (/proc/net/rpc/nfsd).

ORIGINAL are the counters of the captured server; BEFORE and AFTER those of the live one, before and after the replay. WHOLE is the packet
capture of the replay, and ALONE the part of it without the preparation and the final check. What is in WHOLE and not in ALONE does
not count. Exit code 1 if any count differs.
"""
import json
import subprocess
import sys
from collections import Counter

# Operations of NFSv4 from number 3 on (RFC 8881 section 18, RFC 7862 section 15, RFC 8276 section 8.4), and procedures of NFSv3 (RFC 1813).
OPERATIONS = """ACCESS CLOSE COMMIT CREATE DELEGPURGE DELEGRETURN GETATTR GETFH LINK LOCK LOCKT LOCKU LOOKUP LOOKUPP NVERIFY OPEN OPENATTR
OPEN_CONFIRM OPEN_DOWNGRADE PUTFH PUTPUBFH PUTROOTFH READ READDIR READLINK REMOVE RENAME RENEW RESTOREFH SAVEFH SECINFO SETATTR SETCLIENTID
SETCLIENTID_CONFIRM VERIFY WRITE RELEASE_LOCKOWNER BACKCHANNEL_CTL BIND_CONN_TO_SESSION EXCHANGE_ID CREATE_SESSION DESTROY_SESSION
FREE_STATEID GET_DIR_DELEGATION GETDEVICEINFO GETDEVICELIST LAYOUTCOMMIT LAYOUTGET LAYOUTRETURN SECINFO_NO_NAME SEQUENCE SET_SSV TEST_STATEID
WANT_DELEGATION DESTROY_CLIENTID RECLAIM_COMPLETE ALLOCATE COPY COPY_NOTIFY DEALLOCATE IO_ADVISE LAYOUTERROR LAYOUTSTATS OFFLOAD_CANCEL
OFFLOAD_STATUS READ_PLUS SEEK WRITE_SAME CLONE GETXATTR SETXATTR LISTXATTRS REMOVEXATTR""".split()
PROCEDURES = """NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK READDIR READDIRPLUS FSSTAT
FSINFO PATHCONF COMMIT""".split()


def counted(path):
    """What a server has counted."""
    counts = Counter()
    with open(path, encoding="ascii") as lines:
        for line in lines:
            key, *numbers = line.split()
            if key == "proc3":
                counts.update({f"NFSv3 {name}": int(n) for name, n in zip(PROCEDURES, numbers[1:])})
            elif key == "proc4ops":
                counts.update({name: int(n) for name, n in zip(OPERATIONS, numbers[4:])})
    return counts


def captured(program, path):
    """The procedures and executed operations in a packet capture."""
    counts = Counter()
    output = subprocess.run([program, "-T", "json", "--summary", "none", path], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        call = json.loads(line)
        if call.get("kind") != "transaction" or call.get("program") != 100003 or call["direction"] != "forward":
            continue
        if call["version"] == 3:
            counts[f"NFSv3 {call['procedure']}"] += 1
        counts.update(operation["op"] for operation in call.get("operations", []) if operation.get("status"))
    return counts


def main():
    program, original, before, after, whole, alone = sys.argv[1:]
    expected = counted(original)
    found = counted(after)
    found.subtract(counted(before))
    found.subtract(captured(program, whole))
    found.update(captured(program, alone))
    # The root of the run is a directory: PUTFH of it is sent instead of PUTROOTFH.
    for counts in (expected, found):
        counts["PUTFH"] += counts.pop("PUTROOTFH", 0)
    wrong = [name for name in sorted(expected | found) if expected[name] != found[name]]
    for name in wrong:
        print(f"{name}: {expected[name]} in the original run, {found[name]} in the replay")
    if not wrong:
        print(f"nfsd counted {sum(expected.values())} operations and procedures, as in the original run")
    sys.exit(bool(wrong))


main()
