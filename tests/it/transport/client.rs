//! Minimal NFSv4 client over any transport: opens, writes, reads back, lists and removes files.

use std::time::Duration;

use nfsrdma_dissectors::nfs::v4::{
    Args, Bitmap4, CallbackSecParms4, CbClient4, ChannelAttrs4, ClientOwner4, Close4Args, CompoundReply,
    CreateSession4Args, CreateSessionFlags, Createhow4, DestroyClientid4Args, DestroySession4Args, ExchangeId4Args,
    ExchangeIdFlags, Fattr4, Lookup4Args, Netaddr4, NfsClientId4, Nfsstat4, Open4Args, OpenClaim4, OpenConfirm4Args,
    OpenOwner4, OpenRflags, Openflag4, Opentype4, Read4Args, Readdir4Args, ReclaimComplete4Args, Remove4Args, Results,
    Sequence4Args, Setclientid4Args, SetclientidConfirm, ShareAccess, ShareDeny, StableHow4, StateProtect4A, Stateid4,
    UniversalAddress, Write4Args,
};
use nfsrdma_dissectors::rpc::{Program, Xid};
use nfsrdma_dissectors::xdr::{Ddp, Opaque, Text, Void, XdrArray};
use nfsrdma_rpc::synchronous_client::{AuthSysCredential, RpcClient, SynchronousProcedureCall};
use nfsrdma_rpc::{
    CallTag, ConnectOptions, ConnectTarget, OutgoingRpcCall, PayloadContentLocation, RequestedCallForm,
    RpcClientTransport, RpcClientTransportEvent, SubmitError,
};

/// Lengths around padding, thresholds, segments and records.
pub(super) const LENGTHS: [usize; 19] = [
    0, 1, 2, 3, 4, 5, 511, 1023, 1024, 1025, 4095, 4096, 4097, 65_535, 65_537, 262_143, 1_048_573, 1_048_575, 1_048_576,
];

/// Returns bytes without short-range repetition.
pub(super) fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

pub(super) fn target(port: u16) -> ConnectTarget {
    let wish = ConnectOptions { timeout: Duration::from_secs(20), ..ConnectOptions::default() };
    ConnectTarget { address: ([127, 0, 0, 1], port).into(), name: "localhost".into(), options: wish }
}

/// State of the client at the server.
enum Held {
    /// NFSv4.0: a client ID, and the seqid of its one open-owner.
    Client { clientid: u64, seqid: u32 },
    /// From NFSv4.1 on: a session, and the sequence of its first slot.
    Session { clientid: u64, id: [u8; 16], sequence: u32 },
}

pub(super) struct Client<'t> {
    line: RpcClient<'t>,
    minor: u32,
    held: Held,
    directory: Vec<String>,
}

fn more() -> SynchronousProcedureCall<'static> {
    SynchronousProcedureCall::new(Program::NFS, 4, 1, 4096)
}

impl<'t> Client<'t> {
    /// Connects, and registers the client with the server.
    pub(super) fn new(
        transport: &'t mut dyn RpcClientTransport,
        target: &ConnectTarget,
        minor: u32,
        directory: &[&str],
    ) -> Self {
        let connection = transport.connect(target).unwrap_or_else(|e| panic!("{e}"));
        let xid = Xid(0x1000_0000 * (minor + 1));
        let mut line = RpcClient::new(transport, connection, AuthSysCredential::default(), xid, target.options.timeout);
        let held = if minor == 0 { set_clientid(&mut line) } else { create_session(&mut line, minor) };
        let directory = directory.iter().map(|name| (*name).to_owned()).collect();
        let mut client = Self { line, minor, held, directory };
        if minor > 0 {
            client.run(&[Args::RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false })], &more(), |_| ());
        }
        client
    }

    /// Runs operations, all of which must succeed, after SEQUENCE if there is a session.
    fn run<T>(
        &mut self,
        operations: &[Args<'_>],
        more: &SynchronousProcedureCall<'_>,
        read: impl FnMut(&Results<'_>) -> T,
    ) -> T {
        let mut all = Vec::new();
        if let Held::Session { id, sequence, .. } = &mut self.held {
            *sequence += 1;
            all.push(Args::SEQUENCE(Sequence4Args {
                sa_sessionid: *id,
                sa_sequenceid: *sequence,
                sa_slotid: 0,
                sa_highest_slotid: 0,
                sa_cachethis: false,
            }));
        }
        all.extend_from_slice(operations);
        run(&mut self.line, self.minor, &all, more, read)
    }

    /// Returns the operations that lead from the root to the directory.
    fn way(&self) -> Vec<Args<'static>> {
        let mut way = vec![Args::PUTROOTFH(Void)];
        way.extend(self.directory.iter().map(|name| {
            let name: &'static str = Box::leak(name.clone().into_boxed_str());
            Args::LOOKUP(Lookup4Args { objname: Text(name.as_bytes()) })
        }));
        way
    }

    fn owner(&self) -> OpenOwner4<'static> {
        let clientid = match self.held {
            Held::Client { clientid, .. } => clientid,
            Held::Session { .. } => 0,
        };
        OpenOwner4 { clientid, owner: Opaque(b"test") }
    }

    fn next_seqid(&mut self) -> u32 {
        match &mut self.held {
            Held::Client { seqid, .. } => {
                *seqid += 1;
                *seqid
            }
            Held::Session { .. } => 0,
        }
    }

    /// Opens a file. Returns its stateid and its filehandle.
    pub(super) fn open(&mut self, name: &str, creates: bool) -> (Stateid4, Vec<u8>) {
        let openhow = match creates {
            true => Openflag4::Create(Createhow4::Unchecked(Fattr4::default())),
            false => Openflag4::NoCreate(Opentype4::OPEN4_NOCREATE),
        };
        let seqid = self.next_seqid();
        let mut operations = self.way();
        operations.push(Args::OPEN(Open4Args {
            seqid,
            share_access: ShareAccess::OPEN4_SHARE_ACCESS_BOTH,
            share_deny: ShareDeny::OPEN4_SHARE_DENY_NONE,
            owner: self.owner(),
            openhow,
            claim: OpenClaim4::Null(Text(name.as_bytes())),
        }));
        operations.push(Args::GETFH(Void));
        let (mut opened, mut handle) = (None, Vec::new());
        self.run(&operations, &more(), |results| match results {
            Results::OPEN(outcome) => {
                let ok = outcome.ok().unwrap();
                opened = Some((ok.stateid.clone(), ok.rflags.contains(OpenRflags::OPEN4_RESULT_CONFIRM)));
            }
            Results::GETFH(outcome) => handle = outcome.ok().unwrap().object.0.to_vec(),
            _ => {}
        });
        let (mut stateid, must_confirm) = opened.unwrap();
        if must_confirm {
            let seqid = self.next_seqid();
            let confirm = OpenConfirm4Args { open_stateid: stateid.clone(), seqid };
            self.on(&handle, Args::OPEN_CONFIRM(confirm), &more(), |results| {
                if let Results::OPEN_CONFIRM(outcome) = results {
                    stateid = outcome.ok().unwrap().open_stateid.clone();
                }
            });
        }
        (stateid, handle)
    }

    /// Runs one operation on an object.
    fn on(
        &mut self,
        handle: &[u8],
        operation: Args<'_>,
        more: &SynchronousProcedureCall<'_>,
        read: impl FnMut(&Results<'_>),
    ) {
        let put = Args::PUTFH(nfsrdma_dissectors::nfs::v4::ObjectFh4 { object: Opaque(handle) });
        self.run(&[put, operation], more, read);
    }

    pub(super) fn close(&mut self, open: &(Stateid4, Vec<u8>)) {
        let seqid = self.next_seqid();
        let close = Close4Args { seqid, open_stateid: open.0.clone() };
        self.on(&open.1, Args::CLOSE(close), &more(), |_| ());
    }

    pub(super) fn write(&mut self, open: &(Stateid4, Vec<u8>), data: &[u8]) {
        let length = data.len() as u32;
        let write = Write4Args {
            stateid: open.0.clone(),
            offset: 0,
            stable: StableHow4::FILE_SYNC4,
            data: Ddp::Chunk { length, bytes: None },
        };
        let more = SynchronousProcedureCall { data: &[PayloadContentLocation::Copied(data)], ..more() };
        self.on(&open.1, Args::WRITE(write), &more, |results| {
            if let Results::WRITE(outcome) = results {
                assert_eq!(outcome.ok().unwrap().count, length);
            }
        });
    }

    pub(super) fn read(&mut self, open: &(Stateid4, Vec<u8>), count: u32, shape: RequestedCallForm<'_>) -> Vec<u8> {
        let read = Read4Args { stateid: open.0.clone(), offset: 0, count };
        let more = SynchronousProcedureCall { max_payload_bytes: &[count], shape, ..more() };
        let mut data = Vec::new();
        self.on(&open.1, Args::READ(read), &more, |results| {
            if let Results::READ(outcome) = results {
                data = outcome.ok().unwrap().data.bytes().unwrap().to_vec();
            }
        });
        data
    }

    /// Returns the names in the directory, read in parts of `part` bytes.
    pub(super) fn list(&mut self, part: u32) -> Vec<String> {
        let (mut names, mut cookie, mut cookieverf) = (Vec::new(), 0, [0; 8]);
        loop {
            let mut operations = self.way();
            operations.push(Args::READDIR(Readdir4Args {
                cookie,
                cookieverf,
                dircount: part,
                maxcount: part,
                attr_request: Bitmap4::from(&[][..]),
            }));
            let mut is_over = true;
            let more = SynchronousProcedureCall::new(Program::NFS, 4, 1, part + 1024);
            self.run(&operations, &more, |results| {
                if let Results::READDIR(outcome) = results {
                    let ok = outcome.ok().unwrap();
                    for entry in ok.reply.entries.iter() {
                        names.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
                        cookie = entry.cookie;
                    }
                    (cookieverf, is_over) = (ok.cookieverf, ok.reply.eof);
                }
            });
            if is_over {
                names.sort();
                return names;
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        let mut operations = self.way();
        operations.push(Args::REMOVE(Remove4Args { target: Text(name.as_bytes()) }));
        self.run(&operations, &more(), |_| ());
    }

    /// Releases the state of the client at the server.
    pub(super) fn leave(mut self) {
        if let Held::Session { clientid, id, .. } = self.held {
            let destroy = Args::DESTROY_SESSION(DestroySession4Args { dsa_sessionid: id });
            run(&mut self.line, self.minor, &[destroy], &more(), |_| ());
            let destroy = Args::DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: clientid });
            run(&mut self.line, self.minor, &[destroy], &more(), |_| ());
        }
    }
}

/// Runs operations, all of which must succeed. Returns the value read from the last one.
fn run<T>(
    line: &mut RpcClient<'_>,
    minor: u32,
    operations: &[Args<'_>],
    more: &SynchronousProcedureCall<'_>,
    mut read: impl FnMut(&Results<'_>) -> T,
) -> T {
    let last = line.compound(minor, operations, more, |reply: &CompoundReply<'_>| {
        let mut last = None;
        for results in reply.operations() {
            let results = results.map_err(|stop| stop.error)?;
            assert_eq!(results.status(), Nfsstat4::NFS4_OK, "{results:?} of {operations:?}");
            last = Some(read(&results));
        }
        Ok(last)
    });
    last.unwrap_or_else(|e| panic!("{e}: {operations:?}")).unwrap()
}

fn set_clientid(line: &mut RpcClient<'_>) -> Held {
    let id = format!("test {}", std::process::id());
    let set = Args::SETCLIENTID(Setclientid4Args {
        client: NfsClientId4 { verifier: [7; 8], id: Opaque(id.as_bytes()) },
        callback: CbClient4 {
            cb_program: Program::NFS_CB.0,
            cb_location: Netaddr4 { na_r_netid: Text(b"tcp"), na_r_addr: UniversalAddress(Text(b"0.0.0.0.0.0")) },
        },
        callback_ident: 1,
    });
    let found = run(line, 0, &[set], &more(), |results| match results {
        Results::SETCLIENTID(outcome) => {
            let ok = outcome.ok().unwrap();
            (ok.clientid, ok.setclientid_confirm)
        }
        other => panic!("{other:?}"),
    });
    let (clientid, setclientid_confirm) = found;
    let confirm = Args::SETCLIENTID_CONFIRM(SetclientidConfirm { clientid, setclientid_confirm });
    run(line, 0, &[confirm], &more(), |_| ());
    Held::Client { clientid, seqid: 0 }
}

fn create_session(line: &mut RpcClient<'_>, minor: u32) -> Held {
    let owner = format!("test {} 4.{minor}", std::process::id());
    let exchange = Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: [7; 8], co_ownerid: Opaque(owner.as_bytes()) },
        eia_flags: ExchangeIdFlags(0),
        eia_state_protect: StateProtect4A::None,
        eia_client_impl_id: XdrArray::default(),
    }));
    let (clientid, sequence) = run(line, minor, &[exchange], &more(), |results| match results {
        Results::EXCHANGE_ID(outcome) => {
            let ok = outcome.ok().unwrap();
            (ok.eir_clientid, ok.eir_sequenceid)
        }
        other => panic!("{other:?}"),
    });
    let attributes = || ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 2 << 20,
        ca_maxresponsesize: 2 << 20,
        ca_maxresponsesize_cached: 4096,
        ca_maxoperations: 16,
        ca_maxrequests: 16,
        ca_rdma_ird: XdrArray::default(),
    };
    let create = Args::CREATE_SESSION(Box::new(CreateSession4Args {
        csa_clientid: clientid,
        csa_sequence: sequence,
        csa_flags: CreateSessionFlags(0),
        csa_fore_chan_attrs: attributes(),
        csa_back_chan_attrs: attributes(),
        csa_cb_program: Program::NFS_CB.0,
        csa_sec_parms: XdrArray::from(&[CallbackSecParms4::None][..]),
    }));
    let id = run(line, minor, &[create], &more(), |results| match results {
        Results::CREATE_SESSION(outcome) => outcome.ok().unwrap().csr_sessionid,
        other => panic!("{other:?}"),
    });
    Held::Session { clientid, id, sequence: 0 }
}

/// Writes files of every length, reads them back, lists and removes them.
pub(super) fn every_length(client: &mut Client<'_>) {
    let name = |length: usize| format!("a file of {length} bytes, with a name that makes the list of files long");
    for length in LENGTHS {
        let data = content(length);
        let open = client.open(&name(length), true);
        client.write(&open, &data);
        // More than the file has, and exactly its length.
        for count in [length as u32 + 9, length.max(1) as u32] {
            let found = client.read(&open, count.min(1 << 20), RequestedCallForm::Fitting);
            assert!(found == data, "{length}: {} bytes came back", found.len());
        }
        client.close(&open);
        // The content after another OPEN.
        let open = client.open(&name(length), false);
        assert!(client.read(&open, 1 << 20, RequestedCallForm::Fitting) == data, "{length}");
        client.close(&open);
    }
    let mut names: Vec<_> = LENGTHS.map(name).into();
    names.sort();
    let found = |client: &mut Client<'_>, part| -> Vec<_> {
        client.list(part).into_iter().filter(|found| names.contains(found)).collect()
    };
    // In short Replies, and in a long one.
    assert_eq!(found(client, 512), names);
    assert_eq!(found(client, 65_536), names);
    for name in &names {
        client.remove(name);
    }
    assert_eq!(found(client, 4096), [""; 0]);
}

/// Sends NULL of NFSv4 many times, with as many in flight as the transport accepts but at most `most`. Returns the
/// maximum in flight.
pub(super) fn many_nulls(transport: &mut dyn RpcClientTransport, target: &ConnectTarget, count: u32, most: u32) -> u32 {
    let connection = transport.connect(target).unwrap_or_else(|e| panic!("{e}"));
    let (mut sent, mut done, mut highest) = (0, 0, 0);
    let mut has_come = vec![false; count as usize];
    while done < count {
        while sent < count && sent - done < most {
            let message: Vec<u8> = [0xabcd_0000 + sent, 0, 2, 100_003, 4, 0, 0, 0, 0, 0]
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .collect();
            let call = OutgoingRpcCall::without_payloads(Xid(0xabcd_0000 + sent), CallTag(sent.into()), &message, 100);
            match transport.submit(connection, &call) {
                Ok(_) => sent += 1,
                Err(SubmitError::Busy(_)) => break,
                Err(error) => panic!("{error}"),
            }
            highest = highest.max(sent - done);
        }
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        match transport.poll(Some(deadline)).unwrap_or_else(|e| panic!("{e}")) {
            Some(RpcClientTransportEvent::Reply(reply)) => {
                assert!(!std::mem::replace(&mut has_come[reply.tag.0 as usize], true));
                done += 1;
            }
            Some(RpcClientTransportEvent::Credits { .. }) => {}
            other => panic!("{other:?} after {done} of {sent}"),
        }
    }
    assert!(has_come.iter().all(|has_come| *has_come));
    highest
}
