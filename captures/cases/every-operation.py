"""Writes every-operation.pcap: each operation of NFSv4.0, 4.1 and 4.2, answered, refused and without a reply.

The layouts are from RFC 7531, RFC 5662, RFC 7863 and RFC 8276. Shares no code with the program: the expected
interpretation is in the golden output. Usage: python3 every-operation.py > every-operation.pcap
"""

import struct
import sys

CLIENT, SERVER = bytes([10, 9, 0, 2]), bytes([10, 9, 0, 1])
PORTS = {CLIENT: 855, SERVER: 2049}
REGULAR, DIRECTORY = 1, 2
NOENT, IO, ACCESS, STALE, NOTSUPP, BADSESSION = 2, 5, 13, 70, 10004, 10052


def words(*values):
    return b"".join(struct.pack(">I", value & 0xFFFFFFFF) for value in values)


def long(*values):
    return b"".join(struct.pack(">Q", value) for value in values)


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return words(len(value)) + value + bytes(-len(value) % 4)


def handle(number):
    return text(b"handle-%02d" % number)


STATEID = words(1) + b"state-of-foo"
VERIFIER = b"verifier"
CLIENT_ID = long(0x0123456789ABCDEF)
SESSION = b"session-of-tests"
DEVICE = b"device-of-tests-"
CHANGE = words(1) + long(7, 8)
OWNER = CLIENT_ID + text("owner")
# size (4) and fileid (20)
ASKED = words(1, 1 << 4 | 1 << 20)
ATTRIBUTES = ASKED + text(long(4096, 77))
SIZE = words(1, 1 << 4) + text(long(100))
NO_BITS = words(0)
SET_SIZE = words(1, 1 << 4)
CHANNEL = words(0, 65536, 65536, 4096, 16, 64, 0)
SECURITY = words(1, 0)
LOCK_RANGE = long(10, 20)

# Number: name, arguments, results of success, status of failure. A failed SETATTR also has a bitmap.
OPERATIONS = {
    3: ("ACCESS", words(63), words(63, 31), ACCESS),
    4: ("CLOSE", words(2) + STATEID, STATEID, IO),
    5: ("COMMIT", long(0) + words(4096), VERIFIER, IO),
    6: ("CREATE", words(2) + text("made") + SIZE, CHANGE + SET_SIZE, 17),
    7: ("DELEGPURGE", CLIENT_ID, b"", NOTSUPP),
    8: ("DELEGRETURN", STATEID, b"", STALE),
    9: ("GETATTR", ASKED, ATTRIBUTES, STALE),
    10: ("GETFH", b"", handle(2), IO),
    11: ("LINK", text("linked"), CHANGE, 17),
    12: ("LOCK", words(2, 0) + LOCK_RANGE + words(1, 3) + STATEID + words(4) + OWNER, STATEID, IO),
    13: ("LOCKT", words(2) + LOCK_RANGE + OWNER, b"", IO),
    14: ("LOCKU", words(2, 5) + STATEID + LOCK_RANGE, STATEID, IO),
    15: ("LOOKUP", text("found"), b"", NOENT),
    16: ("LOOKUPP", b"", b"", NOENT),
    17: ("NVERIFY", ATTRIBUTES, b"", 10009),
    18: ("OPEN", words(6, 3, 0) + OWNER + words(1, 0) + SIZE + words(0) + text("opened"),
         STATEID + CHANGE + words(4) + SET_SIZE + words(0), ACCESS),
    19: ("OPENATTR", words(1), b"", NOTSUPP),
    20: ("OPEN_CONFIRM", STATEID + words(7), STATEID, STALE),
    21: ("OPEN_DOWNGRADE", STATEID + words(8, 1, 0), STATEID, 22),
    22: ("PUTFH", handle(5), b"", STALE),
    23: ("PUTPUBFH", b"", b"", IO),
    24: ("PUTROOTFH", b"", b"", IO),
    25: ("READ", STATEID + long(100) + words(8), words(1) + text("8 bytes."), IO),
    26: ("READDIR", long(0) + bytes(8) + words(512, 4096) + ASKED,
         VERIFIER + words(1) + long(3) + text("entry") + ATTRIBUTES + words(0, 1), 20),
    27: ("READLINK", b"", text("target"), 22),
    28: ("REMOVE", text("removed"), CHANGE, NOENT),
    29: ("RENAME", text("before") + text("after"), CHANGE + CHANGE, NOENT),
    30: ("RENEW", CLIENT_ID, b"", 10022),
    31: ("RESTOREFH", b"", b"", 10030),
    32: ("SAVEFH", b"", b"", 10020),
    33: ("SECINFO", text("secured"), SECURITY, NOENT),
    34: ("SETATTR", STATEID + SIZE, SET_SIZE, ACCESS),
    35: ("SETCLIENTID", VERIFIER + text("client") + words(0x40000000) + text("tcp") + text("10.9.0.2.3.4") + words(1),
         CLIENT_ID + VERIFIER, IO),
    36: ("SETCLIENTID_CONFIRM", CLIENT_ID + VERIFIER, b"", 10022),
    37: ("VERIFY", ATTRIBUTES, b"", 10027),
    38: ("WRITE", STATEID + long(50) + words(2) + text("five bytes"), words(10, 2) + VERIFIER, 28),
    39: ("RELEASE_LOCKOWNER", OWNER, b"", 10037),
    40: ("BACKCHANNEL_CTL", words(0x40000000, 1, 0), b"", IO),
    41: ("BIND_CONN_TO_SESSION", SESSION + words(3, 0), SESSION + words(3, 0), BADSESSION),
    42: ("EXCHANGE_ID", VERIFIER + text("client") + words(0, 0, 0),
         CLIENT_ID + words(1, 0x10000, 0) + long(1) + text("server") + text("scope") + words(0), IO),
    43: ("CREATE_SESSION", CLIENT_ID + words(1, 0) + CHANNEL + CHANNEL + words(0x40000000, 1, 0),
         SESSION + words(1, 0) + CHANNEL + CHANNEL, 10022),
    44: ("DESTROY_SESSION", SESSION, b"", BADSESSION),
    45: ("FREE_STATEID", STATEID, b"", 10037),
    46: ("GET_DIR_DELEGATION", words(0) + NO_BITS + long(0) + words(0) + long(0) + words(0) + NO_BITS + NO_BITS,
         words(0) + VERIFIER + STATEID + NO_BITS + NO_BITS + NO_BITS, NOTSUPP),
    47: ("GETDEVICEINFO", DEVICE + words(4, 4096) + NO_BITS, words(4) + text("body") + NO_BITS, NOENT),
    48: ("GETDEVICELIST", words(4, 8) + long(0) + VERIFIER, long(1) + VERIFIER + words(1) + DEVICE + words(1), NOTSUPP),
    49: ("LAYOUTCOMMIT", long(0, 4096) + words(0) + STATEID + words(0, 0, 4) + text("update"), words(0), 10049),
    50: ("LAYOUTGET", words(0, 4, 1) + long(0, 4096, 4096) + STATEID + words(4096),
         words(1) + STATEID + words(1) + long(0, 4096) + words(1, 4) + text("layout"), 10059),
    51: ("LAYOUTRETURN", words(0, 4, 1, 1) + long(0, 4096) + STATEID + text(""), words(1) + STATEID, IO),
    52: ("SECINFO_NO_NAME", words(0), SECURITY, NOENT),
    53: ("SEQUENCE", SESSION + words(1, 0, 63, 0), SESSION + words(1, 0, 63, 63, 0), BADSESSION),
    54: ("SET_SSV", text("ssv") + text("digest"), text("digest"), ACCESS),
    55: ("TEST_STATEID", words(1) + STATEID, words(1, 0), IO),
    56: ("WANT_DELEGATION", words(0x100, 4), words(0), NOTSUPP),
    57: ("DESTROY_CLIENTID", CLIENT_ID, b"", 10074),
    58: ("RECLAIM_COMPLETE", words(0), b"", 10054),
    59: ("ALLOCATE", STATEID + LOCK_RANGE, b"", 28),
    60: ("COPY", STATEID + STATEID + long(1, 2, 3) + words(1, 1, 0),
         words(0) + long(3) + words(2) + VERIFIER + words(1, 1), NOTSUPP),
    61: ("COPY_NOTIFY", STATEID + words(1) + text("nas"), long(90) + words(0) + STATEID + words(1, 1) + text("nas"), NOTSUPP),
    62: ("DEALLOCATE", STATEID + LOCK_RANGE, b"", IO),
    63: ("IO_ADVISE", STATEID + LOCK_RANGE + words(1, 1), words(1, 1), NOTSUPP),
    64: ("LAYOUTERROR", LOCK_RANGE + STATEID + words(1) + DEVICE + words(IO, 25), b"", NOTSUPP),
    65: ("LAYOUTSTATS", LOCK_RANGE + STATEID + long(1, 2, 3, 4) + DEVICE + words(4) + text("stats"), b"", NOTSUPP),
    66: ("OFFLOAD_CANCEL", STATEID, b"", NOTSUPP),
    67: ("OFFLOAD_STATUS", STATEID, long(3) + words(1, 0), NOTSUPP),
    68: ("READ_PLUS", STATEID + long(100) + words(8),
         words(1, 2, 0) + long(100) + text("data") + words(1) + long(104, 4), IO),
    69: ("SEEK", STATEID + long(0) + words(1), words(0) + long(4096), 6),
    70: ("WRITE_SAME", STATEID + words(2) + long(0, 512, 2, 0) + words(1) + long(4) + text("pattern."),
         words(0) + long(1024) + words(2) + VERIFIER, NOTSUPP),
    71: ("CLONE", STATEID + STATEID + long(1, 2, 3), b"", NOTSUPP),
    72: ("GETXATTR", text("user.colour"), text("blue"), 10095),
    73: ("SETXATTR", words(0) + text("user.colour") + text("blue"), CHANGE, 28),
    74: ("LISTXATTRS", long(0) + words(4096), long(1) + words(1) + text("user.colour") + words(1), IO),
    75: ("REMOVEXATTR", text("user.colour"), CHANGE, 10095),
    10044: ("ILLEGAL", b"", b"", 10044),
}
IN_DIRECTORY = {6, 11, 15, 16, 18, 26, 28, 29, 33, 46}
# Filehandle after an operation that changes it; None if there is none.
CURRENT_AFTER = {6: 6, 15: 15, 16: 16, 18: 18, 19: 19, 22: 5, 23: 23, 24: 24, 31: 1, 33: None, 52: None}
V40_ONLY = {20, 30, 35, 36, 39}
ALONE = {41, 42, 43, 44, 53, 57}


class Capture:
    def __init__(self):
        self.time = 1_700_000_000_000_000_000
        self.next = {CLIENT: 1000, SERVER: 5000}
        self.out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)]

    def segment(self, sender, data=b"", flags=0x18):
        peer = SERVER if sender == CLIENT else CLIENT
        acknowledged = self.next[peer] if flags & 0x10 else 0
        tcp = struct.pack(">HHIIBBHHH", PORTS[sender], PORTS[peer], self.next[sender], acknowledged, 0x50, flags, 65000, 0, 0)
        pseudo = sender + peer + struct.pack(">BBH", 0, 6, len(tcp) + len(data))
        tcp = tcp[:16] + struct.pack(">H", checksum(pseudo + tcp + data)) + tcp[18:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0) + sender + peer
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        frame = bytes([2] * 6 + [4] * 6) + b"\x08\x00" + ip + tcp + data
        self.out.append(struct.pack("<IIII", self.time // 10**9, self.time % 10**9, len(frame), len(frame)) + frame)
        self.next[sender] += len(data) + bool(flags & 2)
        self.time += 100_000

    def record(self, sender, message):
        self.segment(sender, words(0x80000000 | len(message)) + message)


def checksum(data):
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def conversation(capture):
    capture.segment(CLIENT, flags=0x02)
    capture.segment(SERVER, flags=0x12)
    capture.segment(CLIENT, flags=0x10)
    xid, sequence = 0x100, 1

    def call(minor, operations, outcome):
        """Operations are pairs of a number, and its arguments and results; the outcome is that of the tested one."""
        nonlocal xid
        xid += 1
        arguments = b"".join(words(number) + arguments for number, arguments, _, _ in operations)
        capture.record(CLIENT, words(xid, 0, 2, 100003, 4, 1, 1, 24, 0, 4) + b"host" + words(0, 0, 0, 0, 0)
                       + text("") + words(minor, len(operations)) + arguments)
        if outcome == "lost":
            return
        results, status, count = b"", 0, 0
        for number, _, result, failure in operations:
            count += 1
            refused = outcome == "failed" and failure is not None
            status = failure if refused else 10044 if number == 10044 else result if isinstance(result, int) else 0
            results += words(number, status) + (result if status == 0 else words(0) if number == 34 else b"")
            if status != 0:
                break
        capture.record(SERVER, words(xid, 1, 0, 0, 0, 0, status) + text("") + words(count) + results)

    def plain(number):
        _, arguments, result, _ = OPERATIONS[number]
        return (number, arguments, result, None)

    def in_session(operations):
        nonlocal sequence
        at = SESSION + words(sequence, 0, 63, 0)
        sequence += 1
        return [(53, at, SESSION + words(sequence - 1, 0, 63, 63, 0), None)] + operations

    call(2, [plain(42)], "answered")
    call(2, [plain(43)], "answered")
    for number, kind in enumerate((REGULAR, REGULAR, DIRECTORY, DIRECTORY), 1):
        look_up = [plain(24), (15, text("object-%d" % number), b"", None), (10, b"", handle(number), None)]
        get_type = (9, words(1, 1 << 1), words(1, 1 << 1) + text(words(kind)), None)
        call(2, in_session(look_up + [get_type]), "answered")
    for number, (_, arguments, result, failure) in OPERATIONS.items():
        for outcome in ("answered", "failed", "lost"):
            tested = (number, arguments, result, failure)
            if number in ALONE:
                operations = [tested]
            else:
                current = 4 if number in IN_DIRECTORY else 2
                files = [(22, handle(3 if number == 29 else 1), b"", None), (32, b"", b"", None),
                         (22, handle(current), b"", None), tested]
                current = CURRENT_AFTER.get(number, current)
                # Bytes are a result, a number is the status of a failure.
                result = 10020 if current is None else handle(current)
                operations = files + [(10, b"", result, None)]
            minor = 0 if number in V40_ONLY else 1 if number == 48 else 2
            if minor and number not in ALONE:
                operations = in_session(operations)
            call(minor, operations, outcome)


capture = Capture()
conversation(capture)
sys.stdout.buffer.write(b"".join(capture.out))
