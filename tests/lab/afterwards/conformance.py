"""Checks a capture against the requirements of the RFCs on a transport, rule by rule.

Arguments: the program, and a capture with the set-up of its connections. The program decodes the packets and finds the messages
that belong together (`-T json`, `--view frames -T fields`, `--view connections`). The order, sizes and handles that the RFCs permit
are defined here, independently of the program's own rules. Loss is no error: retransmissions are skipped, and incomplete messages
are not measured.

It prints one line per rule, with the number of checks, and one line per error. Exit codes: 0 no error except known deviations of
Linux (LINUX); 1 an error; 2 usage error, or a capture that cannot be checked.
"""

import collections
import json
import subprocess
import sys

# Rules by name: the section that demands it, and what it is.
RULES = {
    "grant": ("RFC 8166 3.3.1", "a reply grants at least one credit"),
    "credits": ("RFC 8166 3.3.1", "no more calls are in flight than were granted last"),
    "first": ("RFC 8166 3.3.3", "one call alone is sent before the first reply of a connection"),
    "threshold": ("RFC 8166 3.3.2, RFC 8797 4.2", "a Send is no longer than its receiver takes"),
    "xid": ("RFC 8166 4.2.1", "both headers have the same XID"),
    "version": ("RFC 8166 4.2.2", "rdma_vers is 1"),
    "form": ("RFC 8166 4.2.4, 4.6", "rdma_proc of a message is RDMA_MSG, RDMA_NOMSG or RDMA_ERROR"),
    "message": ("RFC 8166 4.2", "a Send is a message of RPC-over-RDMA whose lists end in it"),
    "error-sender": ("RFC 8166 4.2.4", "RDMA_ERROR comes from a Responder"),
    "error-call": ("RFC 8166 4.5", "RDMA_ERROR answers a call in flight"),
    "error-code": ("RFC 8166 4.5.1", "an error is ERR_CHUNK, or ERR_VERS with a range that lacks version 1"),
    "long": ("RFC 8166 4.2.4", "RDMA_NOMSG has a Position-Zero Read chunk (a call) or a Reply chunk (a reply)"),
    "inline": ("RFC 8166 4.2.4", "RDMA_MSG has a message behind its header, RDMA_NOMSG nothing"),
    "reply-reads": ("RFC 8166 4.3.1", "the Read list of a reply is empty"),
    "position": ("RFC 8166 3.4.5", "a Position is a multiple of four"),
    "zero": ("RFC 8166 3.5.3", "Position zero is of RDMA_NOMSG alone"),
    "inside": ("RFC 8166 3.4.5", "a Position lies within its message"),
    "item": ("RFC 8166 3.4.5.2", "a Read chunk is as long as its data, or with its roundup"),
    "removed": ("RFC 8166 3.4.4.4", "the roundup of what has a Read chunk is not in the message"),
    "roundup": ("RFC 8166 3.5.3", "a long call and a long reply keep their roundup"),
    "read-bounds": ("RFC 8166 3.4.3", "an RDMA Read stays in its segment"),
    "read-late": ("RFC 8166 3.4.5.1", "no RDMA Read comes behind the reply"),
    "copied": ("RFC 8166 3.4.6", "a reply has the Write chunks and the Reply chunk of its call, by handle and offset"),
    "returned": ("RFC 8166 3.4.6", "no more is returned than was offered, and segments are filled in their order"),
    "written": ("RFC 8166 3.4.6", "what was written is returned"),
    "result": ("RFC 8166 3.4.6.2", "a Write chunk returns its data without roundup"),
    "empty": ("RFC 8166 4.3.2.3", "a Write chunk without segments comes back without"),
    "unused": ("RFC 8166 4.3.3", "a Reply chunk that is not used comes back with no bytes"),
    "used": ("RFC 8166 3.5.3", "a reply that is too long for a Send is in the Reply chunk"),
    "write-bounds": ("RFC 8166 3.4.3", "an RDMA Write stays in its segment"),
    "write-late": ("RFC 8166 3.4.6", "no RDMA Write comes behind the reply"),
    "side": ("RFC 8166 3.1", "only the Responder reads and writes"),
    "handle": ("RFC 8166 3.4.3", "a handle that is used is of a call in flight"),
    "announced": ("RFC 8797 4.1", "Send With Invalidate comes where both sides announced it"),
    "invalidated": ("RFC 8797 4.1", "Send With Invalidate has a handle of its own call"),
    "invalidate-call": ("RFC 8797 4.1", "no call is sent With Invalidate"),
    "private": ("RFC 8797 4", "private data has version 1 and no reserved bit"),
    "session": ("RFC 8167 6", "a reverse call comes on a connection that a session has"),
    "reverse-xid": ("RFC 8167 5.1", "a reverse call is a call of version 1 with one XID"),
    "reverse-chunks": ("RFC 8267 6.5", "a reverse call has no data in chunks (or ERR_CHUNK is its reply, RFC 8167 5.3)"),
    "reduced": ("RFC 8267 4, 6.1", "data in chunks is of an operation that may have it there"),
}

# Known deviations of Linux's server, each with its description: they are reported, and no failure.
LINUX = {
    "announced": "it does not set the R bit itself, and invalidates once the client has set it",
}

# Operations of which an argument, or a result, may be in a chunk.
ARGUMENTS = {"WRITE", "SYMLINK", "CREATE"}
RESULTS = {"READ", "READLINK"}

FIELDS = """
    frame.number ip.src ip.dst ipv6.src ipv6.dst udp.length tcp.srcport tcp.dstport tcp.seq_raw infiniband.bth.opcode
    infiniband.bth.destqp infiniband.bth.psn infiniband.bth.padcnt infiniband.reth.va infiniband.reth.r_key infiniband.reth.dmalen
    infiniband.ieth iwarp_mpa.ulpdulength iwarp_ddp.tagged_flag iwarp_ddp.last_flag iwarp_ddp.stag iwarp_ddp.tagged_offset
    iwarp_ddp.msn iwarp_ddp.mo
    iwarp_rdma.opcode iwarp_rdma.inval_stag iwarp_rdma.srcstag iwarp_rdma.srcto iwarp_rdma.rdmardsz iwarp_mpa.privatedata
    infiniband.cm.req.ip_cm.private infiniband.cm.rep.private rpcordma.private_data.version rpcordma.xid rpcordma.version
    rpcordma.flow_control rpcordma.msg_type rpcordma.errcode rpcordma.vers_low rpcordma.vers_high rpcordma.rdma_handle
    rpcordma.rdma_offset rpc.xid
""".split()

NEEDED = """
    connection transport client client_port server server_port direction xid operation rpc_status call reply read_chunks write_chunks
    reply_chunk complete
""".split()

MSG, NOMSG, ERROR = 0, 1, 4
SIDES = {"client": "server", "server": "client"}
BEHIND_THE_HEADER = 28  # the fixed words and three empty lists: RFC 8166 section 4.2

# A piece of a Send: its bytes, whether the message ends with it, the handle that it invalidates, and where the network says, the
# number of the Send and where in it the piece goes.
Piece = collections.namedtuple("Piece", "bytes is_last invalidates number offset", defaults=(None, None))
# An RDMA Read request, or what tells where an RDMA Write goes.
Access = collections.namedtuple("Access", "is_read handle offset length")
# A segment that a call in flight offers.
Offer = collections.namedtuple("Offer", "transaction offset length")


class Report:
    """Checks by rule, and their errors."""

    def __init__(self):
        self.held = collections.Counter()
        self.errors = []

    def hold(self, rule, is_kept, frame, side, text):
        self.held[rule] += 1
        if not is_kept:
            self.errors.append((frame, rule, side, text))

    def print(self):
        for rule, (section, what) in RULES.items():
            print(f"{self.held[rule] or 'not checked':>11}  {section}: {what}")
        known = [error for error in self.errors if error[2] == "server" and error[1] in LINUX]
        errors = [error for error in self.errors if error not in known]
        for frame, rule, side, text in errors[:50]:
            print(f"ERROR [{rule}] frame {frame}, the {side}: {text} ({RULES[rule][0]})")
        for rule, count in sorted(collections.Counter(error[1] for error in known).items()):
            print(f"known [{rule}] {count} times: {LINUX[rule]} ({RULES[rule][0]})")
        unmet = sum(1 for rule in RULES if not self.held[rule])
        print(
            f"{len(RULES)} rules, of which {unmet} were not checked, {sum(self.held.values())} checks: "
            f"{len(errors)} errors, {len(known)} known of Linux"
        )
        return 1 if errors else 0


class Connection:
    """What is known of a connection as its packets go by; sides are "client" and "server"."""

    def __init__(self, told):
        self.number = told["connection"]
        self.set_up = told["set_up"]
        self.pieces = {"client": [], "server": []}
        # iWARP Sends behind a gap: their messages are listed in the frame that fills the gap.
        self.early = {"client": [], "server": []}
        # As the Send began that is under way: calls of its side in flight, and what was granted to them.
        self.before = {}
        # By the side that calls: what its last reply granted, and its calls without a reply, by XID.
        self.granted = {"client": None, "server": None}
        self.in_flight = {"client": {}, "server": {}}
        # By the side that offers it, by handle: the segments of calls in flight, and the XID of the last call that has ended.
        self.offers = {"client": collections.defaultdict(list), "server": collections.defaultdict(list)}
        self.ended = {"client": {}, "server": {}}
        self.newest = {}
        self.has_session = False

    def threshold(self, sender):
        """The most bytes of a Send. A side without private data has 1,024: RFC 8797 section 5.1."""
        default = {"send_size": 1024, "receive_size": 1024}
        return min((self.set_up[sender] or default)["send_size"], (self.set_up[SIDES[sender]] or default)["receive_size"])

    def is_copy(self, sender, place, bits):
        """Whether what has this place in its stream, a number of so many bits, came before."""
        newest = self.newest.get(sender)
        if newest is not None and not 0 < (place - newest) % (1 << bits) < 1 << (bits - 1):
            return True
        self.newest[sender] = place
        return False


def segments(chunks):
    return [segment for chunk in chunks for segment in chunk["segments"]]


def offered(transaction):
    """Its Read segments, and those that are written to, in the order of the header."""
    returns = transaction["write_chunks"] + ([transaction["reply_chunk"]] if transaction["reply_chunk"] else [])
    return segments(transaction["read_chunks"]), segments(returns)


def header_length(transaction, side):
    """Bytes of the RPC-over-RDMA header with its chunks: RFC 8166 section 4.3."""
    reads, returns = offered(transaction)
    length = BEHIND_THE_HEADER + 16 * len(returns) + 8 * len(transaction["write_chunks"])
    length += 4 if transaction["reply_chunk"] else 0
    return length + (24 * len(reads) if side == "call" else 0)


def data_of(transaction, names):
    """Bytes of the data of the operations of these names, where there is one, and its length is known."""
    operations = [operation for operation in transaction["operations"] if operation["op"] in names]
    data = operations[0].get("data") if len(operations) == 1 else None
    return data if isinstance(data, int) else None


def least(transaction):
    """What is held to the rules: a capture has many."""
    kept = {key: transaction[key] for key in NEEDED}
    kept["reply_read_chunks"] = transaction.get("reply_read_chunks")
    kept["operations"] = [{key: operation[key] for key in ("op", "data") if key in operation} for operation in transaction["operations"]]
    return kept


def names_of(transaction):
    return {operation["op"] for operation in transaction["operations"]} or {transaction["operation"]}


class Capture:
    """A capture, held to the rules in the order of its frames."""

    def __init__(self, transactions, connections):
        self.report = Report()
        self.connections = {}
        # The messages that a frame has a part of; and the connections that went a way, each with the frame of its first message.
        self.messages = collections.defaultdict(list)
        self.ways = collections.defaultdict(list)
        told = {line["connection"]: line for line in connections}
        for transaction in transactions:
            if transaction["transport"] in ("tcp", "udp"):
                continue
            name = transaction["connection"]
            transaction = least(transaction)
            for side in ("call", "reply"):
                if transaction[side]:
                    for frame in transaction[side]["frames"]:
                        self.messages[frame].append((transaction, side))
            if name not in self.connections:
                self.begin(Connection(told[name]), transaction)

    def begin(self, connection, transaction):
        if connection.set_up is None or "cut" in connection.set_up["private_data"].values():
            print(f"the capture has not the set-up of connection {connection.number}, which the rules need")
            sys.exit(2)
        self.connections[connection.number] = connection
        client, client_port, server, server_port = (
            transaction[key] for key in ("client", "client_port", "server", "server_port")
        )
        # A BTH names the queue pair that it goes to, a segment of TCP both ports.
        if transaction["transport"] == "iwarp":
            ways = {"client": (client, client_port, server, server_port), "server": (server, server_port, client, client_port)}
        else:
            ways = {"client": (client, server, server_port), "server": (server, client, client_port)}
        first = min(transaction[side]["frames"][0] for side in ("call", "reply") if transaction[side])
        for sender, way in ways.items():
            self.ways[way].append((first, connection, sender))

    def whose(self, way, frame):
        """The connection of a packet, and its sender. A queue pair may have served another connection before."""
        found = None, None
        for first, connection, sender in self.ways.get(way, ()):
            if found[0] is None or first <= frame:
                found = connection, sender
        return found

    def frame(self, texts):
        """A line of fields."""
        values = {name: text.split(",") for name, text in zip(FIELDS, texts) if text}
        number = int(values["frame.number"][0])

        def numbers(name):
            return [int(text, 0) for text in values.get(name, ())]

        def one(name):
            return next(iter(numbers(name)), None)

        source = (values.get("ip.src") or values.get("ipv6.src") or [None])[0]
        target = (values.get("ip.dst") or values.get("ipv6.dst") or [None])[0]
        self.private_data(number, values, numbers("rpcordma.private_data.version"))
        if "infiniband.bth.opcode" in values:
            connection, sender = self.whose((source, target, one("infiniband.bth.destqp")), number)
            read = roce
        elif "iwarp_rdma.opcode" in values:
            connection, sender = self.whose((source, one("tcp.srcport"), target, one("tcp.dstport")), number)
            read = iwarp
        else:
            return
        if connection is None:
            return
        messages = list(zip(*(numbers("rpcordma." + name) for name in ("xid", "version", "flow_control", "msg_type"))))
        if "rpc.xid" in values:
            self.inner_xids(number, connection, sender, messages, numbers("rpc.xid"))
        for event in read(connection, sender, numbers, one):
            if isinstance(event, Access):
                self.access(number, connection, sender, event)
                continue
            pieces = connection.pieces[sender]
            if pieces and pieces[0].number != event.number:
                pieces.clear()
            if event.offset not in (None, sum(piece.bytes for piece in pieces)):
                continue
            if not pieces:
                connection.before[sender] = len(connection.in_flight[sender]), connection.granted[sender]
            pieces.append(event)
            if event.is_last:
                length, invalidates = sum(piece.bytes for piece in pieces), event.invalidates
                pieces.clear()
                # An empty Send keeps a connection alive.
                if length == 0:
                    continue
                limit = connection.threshold(sender)
                self.report.hold("threshold", length <= limit, number, sender, f"a Send of {length} bytes, {limit} are taken")
                if messages:
                    self.report.hold("message", True, number, sender, "")
                    self.message(number, connection, sender, messages.pop(0), length, invalidates, values)
                else:
                    connection.early[sender].append((number, length, invalidates, values))
        while messages and connection.early[sender]:
            before, length, invalidates, values = connection.early[sender].pop(0)
            self.report.hold("message", True, before, sender, "")
            self.message(number, connection, sender, messages.pop(0), length, invalidates, values)

    def end(self):
        """Reports Sends that carried no message until the capture ended."""
        for connection in self.connections.values():
            for sender in SIDES:
                for number, length, _, _ in connection.early[sender]:
                    self.report.hold("message", False, number, sender, f"a Send of {length} bytes is none")

    def private_data(self, frame, values, versions):
        for name in ("infiniband.cm.req.ip_cm.private", "infiniband.cm.rep.private", "iwarp_mpa.privatedata"):
            # RFC 8797 section 5.2: wherever its magic word stands. The reserved bits have no field.
            _, magic, rest = values.get(name, [""])[0].partition("f6ab0e18")
            if magic and versions:
                side = "server" if name.endswith("rep.private") or "20049" in values.get("tcp.srcport", ()) else "client"
                flags = int(rest[2:4] or "0", 16)
                is_kept = versions[0] == 1 and flags & 0xFE == 0
                self.report.hold("private", is_kept, frame, side, f"version {versions[0]}, flags {flags:#04x}")

    def inner_xids(self, frame, connection, sender, messages, inner):
        """The XIDs of RPC messages: of the Sends of this frame, or of a long call whose last bytes are fetched in it."""
        outer = [message[0] for message in messages if message[3] == MSG or message[0] in inner]
        fetched = collections.Counter(inner) - collections.Counter(outer)
        missing = collections.Counter(outer) - collections.Counter(inner)
        is_kept = not missing and all(xid in connection.in_flight[sender] for xid in fetched)
        self.report.hold("xid", is_kept, frame, sender, f"outside {list(map(hex, outer))}, inside {list(map(hex, inner))}")

    def message(self, frame, connection, sender, message, length, invalidates, values):
        """A whole Send: a call, its reply, or RDMA_ERROR."""
        xid, version, credits, form = message
        hold = lambda rule, is_kept, text="": self.report.hold(rule, is_kept, frame, sender, f"{xid:#010x}: {text}")
        hold("version", version == 1, f"version {version}")
        hold("form", form in (MSG, NOMSG, ERROR), f"rdma_proc {form}")
        receiver = SIDES[sender]
        if form == ERROR:
            self.error(connection, sender, xid, values, hold)
        transaction, side = next(
            (
                (transaction, side)
                for transaction, side in self.messages[frame]
                if int(transaction["xid"], 16) == xid and transaction["connection"] == connection.number
            ),
            (None, None),
        )
        if transaction is None:
            return
        if side == "call":
            self.call(connection, sender, transaction, xid, form, length, invalidates, hold)
        else:
            # Of a message that was sent again the transaction knows one reply.
            self.reply(connection, receiver, transaction, xid, form, length, invalidates, values, hold)
            hold("grant", credits > 0, "no credit")
            connection.granted[receiver] = credits

    def error(self, connection, sender, xid, values, hold):
        is_call_of_the_other = xid in connection.in_flight[SIDES[sender]]
        is_own_call = not is_call_of_the_other and xid in connection.in_flight[sender]
        hold("error-sender", not is_own_call, "RDMA_ERROR for a call of its own")
        hold("error-call", is_call_of_the_other, "RDMA_ERROR for no call in flight")
        code, low, high = (values.get("rpcordma." + name, [""])[0] for name in ("errcode", "vers_low", "vers_high"))
        is_range = bool(low) and bool(high) and int(low) <= int(high) and not int(low) <= 1 <= int(high)
        is_kept = code in ("2", "ERR_CHUNK") or (code in ("1", "ERR_VERS") and is_range)
        hold("error-code", is_kept, f"error {code} {low} {high}")

    def call(self, connection, sender, transaction, xid, form, length, invalidates, hold):
        in_flight, granted = connection.before[sender]
        if granted is None:
            hold("first", in_flight == 0, f"{in_flight} calls are without reply, and none was granted")
        else:
            hold("credits", in_flight < granted, f"{in_flight} calls are in flight, {granted} granted")
        hold("invalidate-call", invalidates is None, f"it invalidates {invalidates}")
        reads, returns = offered(transaction)
        chunks = transaction["read_chunks"]
        positions = [chunk["position"] for chunk in chunks]
        if form in (MSG, NOMSG):
            behind = length - header_length(transaction, "call")
            hold("inline", behind > 0 if form == MSG else behind == 0, f"{behind} bytes behind the header")
        if form == NOMSG:
            hold("long", 0 in positions, "no Position-Zero Read chunk")
            zero = sum(segment["length"] for chunk in chunks if chunk["position"] == 0 for segment in chunk["segments"])
            hold("roundup", zero % 4 == 0, f"a Position-Zero Read chunk of {zero} bytes")
        elif reads:
            hold("zero", 0 not in positions, "RDMA_MSG with a Position-Zero Read chunk")
        for position in positions:
            hold("position", position % 4 == 0, f"Position {position}")
        call = transaction["call"]
        beside = [chunk for chunk in chunks if chunk["position"] > 0]
        if form == MSG and beside:
            # A Position counts the bytes of the chunks before it (RFC 8166 section 3.4.5).
            end = call["length"]
            for chunk in sorted(beside, key=lambda chunk: chunk["position"]):
                hold("inside", chunk["position"] <= end, f"Position {chunk['position']} in {end} bytes")
                end += sum((segment["length"] + 3) // 4 * 4 for segment in chunk["segments"])
            hold("removed", call["length"] % 4 == 0, f"{call['length']} bytes without the data")
        data = data_of(transaction, {"WRITE"})
        if len(beside) == 1 and data is not None:
            total = sum(segment["length"] for segment in beside[0]["segments"])
            hold("item", total in (data, data + -data % 4), f"{total} bytes offered of {data}")
        is_reverse = transaction["direction"] == "reverse"
        names = names_of(transaction)
        if beside and not is_reverse:
            hold("reduced", bool(names & ARGUMENTS), f"a Read chunk with {sorted(names)}")
        if is_reverse:
            hold("session", connection.has_session, "no CREATE_SESSION or BIND_CONN_TO_SESSION before")
            hold("reverse-xid", form in (MSG, NOMSG), f"rdma_proc {form}")
            refused = transaction["rpc_status"] == "RDMA_ERROR:ERR_CHUNK"
            hold("reverse-chunks", refused or not (beside or transaction["write_chunks"]), "chunks for data")
        connection.in_flight[sender][xid] = transaction
        for is_read, offers in ((True, reads), (False, returns)):
            for segment in offers:
                offer = Offer(transaction, int(segment["offset"], 16), segment["length"])
                connection.offers[sender][int(segment["handle"], 16)].append(offer)

    def reply(self, connection, caller, transaction, xid, form, length, invalidates, values, hold):
        connection.in_flight[caller].pop(xid, None)
        reads, returns = offered(transaction)
        handles = {int(segment["handle"], 16) for segment in reads + returns}
        for handle in handles:
            offers = connection.offers[caller]
            offers[handle] = [offer for offer in offers[handle] if offer.transaction is not transaction]
            connection.ended[caller][handle] = transaction["xid"]
        if {"CREATE_SESSION", "BIND_CONN_TO_SESSION"} & names_of(transaction):
            connection.has_session = True
        if invalidates is not None:
            announced = all((connection.set_up[side] or {}).get("remote_invalidation") for side in SIDES)
            hold("announced", announced, "not announced by both")
            hold("invalidated", invalidates in handles, f"{invalidates:#010x} is not a handle of its call")
        hold("reply-reads", not transaction.get("reply_read_chunks"), "a Read list")
        if form not in (MSG, NOMSG):
            return
        chunk = transaction["reply_chunk"]
        behind = length - header_length(transaction, "reply")
        hold("inline", behind > 0 if form == MSG else behind == 0, f"{behind} bytes behind the header")
        if form == NOMSG:
            hold("long", chunk is not None, "no Reply chunk was offered")
        if returns:
            self.copied(returns, values, hold)
        for write in transaction["write_chunks"] + ([chunk] if chunk else []):
            self.returned(write, transaction["complete"], hold)
        if not transaction["complete"]:
            return
        if chunk:
            used = sum(segment["returned"] or 0 for segment in chunk["segments"])
            if form == NOMSG:
                hold("roundup", used % 4 == 0 and used > 0, f"{used} bytes in the Reply chunk")
                hold("used", True)
            else:
                hold("unused", used == 0, f"{used} bytes in the Reply chunk")
                hold("used", length <= connection.threshold(SIDES[caller]), f"a Send of {length} bytes beside a Reply chunk")
        written = sum(segment["returned"] or 0 for segment in segments(transaction["write_chunks"]))
        if written:
            hold("reduced", bool(names_of(transaction) & RESULTS), f"a Write chunk with {sorted(names_of(transaction))}")
        data = data_of(transaction, {"READ"})
        if written and data is not None and len(transaction["write_chunks"]) == 1:
            hold("result", written == data, f"{written} bytes returned of {data}")

    def copied(self, returns, values, hold):
        """The Write and Reply chunks of a reply, which is the only message that its frame completes."""
        if len(values["rpcordma.xid"]) > 1:
            return
        for name, key in (("rdma_handle", "handle"), ("rdma_offset", "offset")):
            found = [int(text, 0) for text in values.get("rpcordma." + name, ())]
            wanted = [int(segment[key], 16) for segment in returns]
            # A Write chunk without an item comes back empty (RFC 8267 section 6.4.1).
            filled = [int(segment[key], 16) for segment in returns if segment["returned"] is not None]
            hold("copied", found in (wanted, filled), f"{name} {found}, and in the call {wanted}")

    def returned(self, chunk, is_complete, hold):
        if not chunk["segments"]:
            hold("empty", True)
        is_full = True
        for segment in chunk["segments"]:
            returned = segment["returned"] or 0
            is_kept = returned <= segment["length"] and (is_full or returned == 0)
            hold("returned", is_kept, f"{returned} bytes in {segment['handle']} of {segment['length']}")
            moved = segment["moved"]
            if is_complete:
                hold("written", returned == moved, f"{returned} bytes in {segment['handle']}, {moved} written")
            is_full = returned == segment["length"]

    def access(self, frame, connection, sender, access):
        """An RDMA Read or Write: of memory that the other side offers."""
        # No handle is checked for an operation of no bytes, which keeps a connection alive (IBTA 9.7.4.1.5, RFC 6581 section 3).
        if access.length == 0:
            return
        what = f"an RDMA {'Read' if access.is_read else 'Write'} of {access.length} bytes at {access.offset:#x} of {access.handle:#010x}"
        hold = lambda rule, is_kept, text: self.report.hold(rule, is_kept, frame, sender, f"{what}: {text}")
        name, owner = "read" if access.is_read else "write", SIDES[sender]
        offers = connection.offers[owner].get(access.handle)
        is_own = not offers and bool(connection.offers[sender].get(access.handle))
        hold("side", not is_own, "its own segment")
        if is_own:
            return
        ended = None if offers else connection.ended[owner].get(access.handle)
        hold(f"{name}-late", ended is None, f"the call {ended} has its reply")
        if ended is not None:
            return
        hold("handle", bool(offers), "of no call in flight")
        if offers:
            end = access.offset + access.length
            is_inside = any(offer.offset <= access.offset and end <= offer.offset + offer.length for offer in offers)
            hold(f"{name}-bounds", is_inside, f"not in {[(hex(offer.offset), offer.length) for offer in offers]}")


def roce(connection, sender, numbers, one):
    """What a packet of InfiniBand is: InfiniBand Architecture Specification, sections 9.2 and 9.3."""
    opcode = one("infiniband.bth.opcode")
    if opcode > 0x17 or 0x0D <= opcode <= 0x15 or connection.is_copy(sender, one("infiniband.bth.psn"), 24):
        return
    if opcode <= 5 or opcode >= 0x16:
        immediate = 4 if opcode in (3, 5, 0x16, 0x17) else 0
        # UDP 8, BTH 12, ICRC 4.
        length = one("udp.length") - 24 - one("infiniband.bth.padcnt") - immediate
        yield Piece(length, opcode not in (0, 1), one("infiniband.ieth"))
    elif opcode in (6, 10, 11, 12):
        place = (one("infiniband.reth." + name) for name in ("r_key", "va", "dmalen"))
        yield Access(opcode == 12, *place)


def iwarp(connection, sender, numbers, one):
    """What the FPDUs of a frame are: RFC 5040 section 4, RFC 5041 section 4."""
    fpdus = list(
        zip(*(numbers(name) for name in ("iwarp_mpa.ulpdulength", "iwarp_rdma.opcode", "iwarp_ddp.tagged_flag", "iwarp_ddp.last_flag")))
    )
    if connection.is_copy(sender, one("tcp.seq_raw"), 32):
        return
    tagged = zip(numbers("iwarp_ddp.stag"), numbers("iwarp_ddp.tagged_offset"))
    requests = zip(*(numbers("iwarp_rdma." + name) for name in ("srcstag", "srcto", "rdmardsz")))
    invalidated = iter(numbers("iwarp_rdma.inval_stag"))
    untagged = zip(numbers("iwarp_ddp.msn"), numbers("iwarp_ddp.mo"))
    for length, opcode, is_tagged, is_last in fpdus:
        place = next(tagged if is_tagged else untagged, None)
        if opcode in (3, 4, 5, 6) and place:
            handle = next(invalidated, None) if opcode in (4, 6) else None
            yield Piece(length - 18, bool(is_last), handle, *place)
        elif opcode == 1:
            request = next(requests, None)
            if request:
                yield Access(True, *request)
        elif opcode == 0 and is_tagged and place:
            yield Access(False, *place, length - 14)


def ask(program, capture, *options):
    """What the program says, a line at a time."""
    with subprocess.Popen([program, *options, "--summary", "none", capture], stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            yield line.rstrip("\n")
    if running.returncode != 0:
        print(f"{program} ended with {running.returncode}")
        sys.exit(2)


def main():
    if len(sys.argv) != 3:
        print("usage: conformance.py PROGRAM CAPTURE")
        sys.exit(2)
    connections = map(json.loads, ask(*sys.argv[1:], "-T", "json", "--view", "connections"))
    capture = Capture(map(json.loads, ask(*sys.argv[1:], "-T", "json")), connections)
    if not capture.connections:
        print("the capture has no connection of RPC-over-RDMA")
        sys.exit(2)
    fields = [option for name in FIELDS for option in ("-e", name)]
    for line in ask(*sys.argv[1:], "--view", "frames", "-T", "fields", *fields):
        capture.frame(line.split("\t"))
    capture.end()
    sys.exit(capture.report.print())


main()
