//! Arguments and results of each procedure, encoded by hand from RFC 1833 sections 2.1 and 3.1.

use super::*;
use crate::nfs::Procedure;
use crate::nfs::example_messages::{FieldOrderChecker, items, lay_out};
use crate::rpc::Program;
use crate::rpc::universal_address::UniversalAddress;
use crate::xdr::{Cursor, Opaque, Text, Void};

/// Returns an rpcb of NFS over RDMA, as registered according to RFC 8267 section 4.2, encoded and decoded.
fn rpcb() -> (Vec<u8>, Rpcb<'static>) {
    let rpcb = Rpcb {
        r_prog: Program::NFS,
        r_vers: 3,
        r_netid: Text(b"rdma"),
        r_addr: UniversalAddress(Text(b"192.0.2.1.78.81")),
        r_owner: Text(b"superuser"),
    };
    (lay_out![100_003, 3, "rdma", "192.0.2.1.78.81", "superuser"], rpcb)
}

fn rdma6() -> (Vec<u8>, Rpcb<'static>) {
    let rpcb = Rpcb { r_netid: Text(b"rdma6"), r_addr: UniversalAddress(Text(b"2001:db8::1.78.81")), ..rpcb().1 };
    (lay_out![100_003, 3, "rdma6", "2001:db8::1.78.81", "superuser"], rpcb)
}

fn rmtcall() -> (Vec<u8>, RpcbRmtcallargs<'static>) {
    let args = RpcbRmtcallargs { prog: Program::MOUNT, vers: 3, proc: 4, args: Opaque(b"args") };
    (lay_out![100_005, 3, 4, "args"], args)
}

fn rmtcall_result() -> (Vec<u8>, RpcbRmtcallres<'static>) {
    let result = RpcbRmtcallres { addr: UniversalAddress(Text(b"192.0.2.1.3.86")), results: Opaque(b"result") };
    (lay_out!["192.0.2.1.3.86", "result"], result)
}

fn uaddr() -> Uaddr<'static> {
    Uaddr { uaddr: UniversalAddress(Text(b"192.0.2.1.78.81")) }
}

fn netbuf() -> Netbuf<'static> {
    Netbuf { maxlen: 16, buf: Opaque(b"sockaddr") }
}

pub(in crate::nfs) mod version_2 {
    use super::*;
    use crate::nfs::rpcbind::v2::{GetportRes, Mapping, PmapCallitArgs, Pmaplist, PortmapCallitResult, Prot};

    fn mapping(prot: Prot, port: u32) -> Mapping {
        Mapping { prog: Program::NFS, vers: 3, prot, port }
    }

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        let call = PmapCallitArgs { prog: Program::MOUNT, vers: 3, proc: 4, args: Opaque(b"args") };
        vec![
            (lay_out![], Args::NULL(Void)),
            (lay_out![100_003, 3, 6, 2049], Args::SET(mapping(Prot::IPPROTO_TCP, 2049))),
            (lay_out![100_003, 3, 17, 0], Args::UNSET(mapping(Prot::IPPROTO_UDP, 0))),
            (lay_out![100_003, 3, 6, 0], Args::GETPORT(mapping(Prot::IPPROTO_TCP, 0))),
            (lay_out![], Args::DUMP(Void)),
            (lay_out![100_005, 3, 4, "args"], Args::CALLIT(call)),
        ]
    }

    fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
        let pmaplist = items([mapping(Prot::IPPROTO_TCP, 2049), mapping(Prot::IPPROTO_UDP, 2049)]);
        vec![
            (lay_out![], Results::NULL(Void)),
            (lay_out![1], Results::SET(RpcbindSetRes { answer: true })),
            (lay_out![0], Results::UNSET(RpcbindSetRes { answer: false })),
            (lay_out![2049], Results::GETPORT(GetportRes { port: 2049 })),
            (lay_out![1, 100_003, 3, 6, 2049, 1, 100_003, 3, 17, 2049, 0], Results::DUMP(Pmaplist { pmaplist })),
            (lay_out![0], Results::DUMP(Pmaplist { pmaplist: items([]) })),
            (lay_out![854, "result"], Results::CALLIT(PortmapCallitResult { port: 854, res: Opaque(b"result") })),
        ]
    }

    crate::nfs::example_messages::examples! { crate::nfs::rpcbind::v2: calls(), replies() }
}

/// Calls and replies common to versions 3 and 4. Procedure 5 has another name in each.
macro_rules! of_rpcbind {
    (calls, $callit:ident) => {
        vec![
            (lay_out![], Args::NULL(Void)),
            (rpcb().0, Args::SET(rpcb().1)),
            (rdma6().0, Args::UNSET(rdma6().1)),
            (rpcb().0, Args::GETADDR(rpcb().1)),
            (lay_out![], Args::DUMP(Void)),
            (rmtcall().0, Args::$callit(rmtcall().1)),
            (lay_out![], Args::GETTIME(Void)),
            (lay_out!["192.0.2.1.78.81"], Args::UADDR2TADDR(uaddr())),
            (lay_out![16, "sockaddr"], Args::TADDR2UADDR(netbuf())),
        ]
    };
    (replies, $callit:ident) => {
        vec![
            (lay_out![], Results::NULL(Void)),
            (lay_out![1], Results::SET(RpcbindSetRes { answer: true })),
            (lay_out![0], Results::UNSET(RpcbindSetRes { answer: false })),
            (lay_out!["192.0.2.1.78.81"], Results::GETADDR(uaddr())),
            (lay_out![""], Results::GETADDR(Uaddr { uaddr: UniversalAddress(Text(b"")) })),
            (
                lay_out![1, rpcb().0, 1, rdma6().0, 0],
                Results::DUMP(Rpcblist { rpcblist: items([rpcb().1, rdma6().1]) }),
            ),
            (rmtcall_result().0, Results::$callit(rmtcall_result().1)),
            (lay_out![1_700_000_000], Results::GETTIME(RpcbindGettimeRes { time: 1_700_000_000 })),
            (lay_out![16, "sockaddr"], Results::UADDR2TADDR(netbuf())),
            (lay_out!["192.0.2.1.78.81"], Results::TADDR2UADDR(uaddr())),
        ]
    };
}

pub(in crate::nfs) mod version_3 {
    use super::*;

    crate::nfs::example_messages::examples! {
        crate::nfs::rpcbind::v3: of_rpcbind!(calls, CALLIT), of_rpcbind!(replies, CALLIT)
    }
}

pub(in crate::nfs) mod version_4 {
    use super::*;
    use crate::nfs::rpcbind::v4::{
        NetconfigSemantics, RpcbEntry, RpcbEntryList, RpcbStat, RpcbStatByvers, RpcbsAddrlist, RpcbsRmtcalllist,
    };

    fn calls() -> Vec<(Vec<u8>, Args<'static>)> {
        let more = vec![
            (rpcb().0, Args::GETVERSADDR(rpcb().1)),
            (rmtcall().0, Args::INDIRECT(rmtcall().1)),
            (rpcb().0, Args::GETADDRLIST(rpcb().1)),
            (lay_out![], Args::GETSTAT(Void)),
        ];
        [of_rpcbind!(calls, BCAST), more].concat()
    }

    /// Returns the statistics of a version with one request of each kind, encoded and decoded.
    fn stat() -> (Vec<u8>, RpcbStat<'static>) {
        let addrinfo =
            items([RpcbsAddrlist { prog: Program::NFS, vers: 3, success: 1, failure: 2, netid: Text(b"rdma") }]);
        let rmtinfo = items([RpcbsRmtcalllist {
            prog: Program::MOUNT,
            vers: 3,
            proc: 5,
            success: 1,
            failure: 2,
            indirect: 1,
            netid: Text(b"tcp"),
        }]);
        let info = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let addr_bytes = lay_out![1, 100_003, 3, 1, 2, "rdma", 0];
        let rmt_bytes = lay_out![1, 100_005, 3, 5, 1, 2, 1, "tcp", 0];
        let bytes = lay_out![0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 21, addr_bytes, rmt_bytes];
        (bytes, RpcbStat { info, setinfo: 20, unsetinfo: 21, addrinfo, rmtinfo })
    }

    fn replies() -> Vec<(Vec<u8>, Results<'static>)> {
        let entry = RpcbEntry {
            r_maddr: UniversalAddress(Text(b"192.0.2.1.78.81")),
            r_nc_netid: Text(b"rdma"),
            r_nc_semantics: NetconfigSemantics::NC_TPI_COTS,
            r_nc_protofmly: Text(b"inet"),
            r_nc_proto: Text(b"-"),
        };
        let nothing = RpcbStat { info: [0; 13], setinfo: 0, unsetinfo: 0, addrinfo: items([]), rmtinfo: items([]) };
        let stats =
            RpcbStatByvers { rpcbvers_2_stat: nothing.clone(), rpcbvers_3_stat: stat().1, rpcbvers_4_stat: nothing };
        let nothing = vec![0; 17 * 4];
        let more = vec![
            (lay_out!["192.0.2.1.78.81"], Results::GETVERSADDR(uaddr())),
            (rmtcall_result().0, Results::INDIRECT(rmtcall_result().1)),
            (
                lay_out![1, "192.0.2.1.78.81", "rdma", 2, "inet", "-", 0],
                Results::GETADDRLIST(RpcbEntryList { rpcb_entry_list: items([entry]) }),
            ),
            (lay_out![nothing.clone(), stat().0, nothing], Results::GETSTAT(stats)),
        ];
        [of_rpcbind!(replies, BCAST), more].concat()
    }

    crate::nfs::example_messages::examples! { crate::nfs::rpcbind::v4: calls(), replies() }
}

#[test]
fn rfc1833_section_3_2_a_port_is_no_status() {
    let portmap2 = v2::Procedure::ALL.iter().copied().map(Procedure::Portmap2);
    let rpcbind3 = v3::Procedure::ALL.iter().copied().map(Procedure::Rpcbind3);
    let rpcbind4 = v4::Procedure::ALL.iter().copied().map(Procedure::Rpcbind4);
    for procedure in portmap2.chain(rpcbind3).chain(rpcbind4) {
        assert_eq!(procedure.status(Cursor::new(&[0, 0, 0, 1])), Ok(None));
    }
}

#[test]
fn fields_have_the_names_that_wireshark_gives_them() {
    let mut observer = FieldOrderChecker::default();
    v4::Args::decode(v4::Procedure::GETADDR, &mut Cursor::new(&rpcb().0), &mut observer).unwrap();
    let expected = [
        "portmap.rpcb.prog",
        "portmap.rpcb.version",
        "portmap.rpcb.netid",
        "portmap.rpcb.addr",
        "nfs.universal_address.ipv4",
        "nfsrdma.universal_address.port",
        "portmap.rpcb.owner",
    ];
    assert_eq!(observer.names, expected);
    let (bytes, mut observer) = (lay_out![100_003, 3, 6, 0], FieldOrderChecker::default());
    v2::Args::decode(v2::Procedure::GETPORT, &mut Cursor::new(&bytes), &mut observer).unwrap();
    assert_eq!(observer.names, ["portmap.prog", "portmap.version", "portmap.proto", "portmap.port"]);
}
