//! The default capture filter: RDMA, its connection manager, RPC, and little else.
//!
//! The filter runs in the kernel before a packet is copied, and knows no streams. RPC over TCP at ports known only to
//! rpcbind (MOUNT, NLM, NSM, NFSv4.0 callbacks) is recognised by the first bytes of its messages; of a message of
//! several segments only the first passes. Tunnels pass as a whole, because only the decoder can see their payload.

use nfsrdma_dissectors::captured_frame::LinkType;

/// RoCEv1 by its EtherType. RoCEv2, including connection manager and congestion notifications, by its port.
const ROCE: &str = "ether proto 0x8915";
const ROCE_V2: &str = "udp port 4791";

/// NFS, NFS over RDMA (iWARP and its connection setup), rpcbind.
const PORTS: &str = "tcp port 2049 or tcp port 20049 or tcp port 111 or udp port 2049 or udp port 111";

/// UDP and TCP fragments after the first, which have no ports.
const FRAGMENTS: &str = "(ip[6:2] & 0x1fff != 0 and (ip[9] = 17 or ip[9] = 6)) or ip6[6] = 44";

/// GRE (ERSPAN, NVGRE), IP in IP, MPLS in IP, VXLAN.
const TUNNELS: &str = "ip[9] = 47 or ip[9] = 4 or ip[9] = 41 or ip6[6] = 47 or ip6[6] = 4 or ip6[6] = 41 \
                       or ip[9] = 137 or ip6[6] = 137 or udp port 4789";
const MPLS: &str = "ether proto 0x8847 or ether proto 0x8848";

/// Returns a filter for an RPC message at offset `at`, as pcap-filter(7) indexes: a Call of RPC version 2 for a program
/// in Sun's or the transient number range (used by callbacks), or a Reply that is accepted or denied, with a verifier
/// flavor or a rejection status in range (RFC 5531 section 9).
fn rpc(at: impl Fn(u32) -> String) -> String {
    let [kind, version, program] = [at(4), at(8), at(12)];
    format!(
        "({kind} = 0 and {version} = 2 and ({program} & 0xfffffe00 = 0x18600 or {program} & 0xe0000000 = 0x40000000)) \
         or ({kind} = 1 and {version} <= 1 and {program} <= 6)"
    )
}

/// Returns a filter for RPC in datagrams, after the UDP header.
fn rpc_over_udp() -> String {
    let v4 = rpc(|at| format!("udp[{}:4]", 8 + at));
    let v6 = rpc(|at| format!("ip6[{}:4]", 40 + 8 + at));
    format!("(udp and ({v4})) or (ip6[6] = 17 and ({v6}))")
}

/// Returns a filter for RPC in segments that begin with a single-fragment record shorter than 64 KiB, as the record
/// mark shows (RFC 5531 section 11).
fn rpc_over_tcp() -> String {
    let v4 = |at: u32, size: u32| format!("tcp[((tcp[12] & 0xf0) >> 2) + {at}:{size}]");
    let v6 = |at: u32, size: u32| format!("ip6[((ip6[52] & 0xf0) >> 2) + {}:{size}]", 40 + at);
    let mark = 0x8000;
    format!(
        "(tcp and {} = {mark} and ({})) or (ip6[6] = 6 and {} = {mark} and ({}))",
        v4(0, 2),
        rpc(|at| v4(4 + at, 4)),
        v6(0, 2),
        rpc(|at| v6(4 + at, 4)),
    )
}

/// Returns the capture filter for a link type; `None` to capture everything, as on an RDMA device, which carries
/// nothing else.
pub fn default_for(link: LinkType) -> Option<String> {
    let ip = || format!("{ROCE_V2} or {PORTS} or {FRAGMENTS} or {TUNNELS} or {} or {}", rpc_over_udp(), rpc_over_tcp());
    match link {
        LinkType::ETHERNET => {
            let expression = format!("{ROCE} or {MPLS} or {}", ip());
            // Each `vlan` shifts the offsets of all that follows by one tag.
            Some(format!("{expression} or (vlan and ({expression} or (vlan and ({expression}))))"))
        }
        LinkType::LINUX_SLL | LinkType::LINUX_SLL2 => Some(format!("{ROCE} or {MPLS} or {}", ip())),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType::NULL | LinkType::LOOP => Some(ip()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use nfsrdma_flow::{Flow, FlowLimits, FrameContentKind};
    use pcap::{BpfProgram, Capture, Linktype};

    use crate::frame_source::CaptureFrameSource;

    use super::*;

    fn program(link: LinkType) -> BpfProgram {
        // On Linux libpcap and capture files number raw IP differently.
        let number = if link == LinkType::RAW { 12 } else { link.0 };
        let dead = Capture::dead(Linktype(number as i32)).unwrap();
        dead.compile(&default_for(link).unwrap(), true).unwrap()
    }

    /// The kernel accepts at most 4,096 instructions.
    #[test]
    fn the_filter_is_short_enough_on_each_link_type() {
        for link in [
            LinkType::ETHERNET,
            LinkType::LINUX_SLL,
            LinkType::LINUX_SLL2,
            LinkType::RAW,
            LinkType::NULL,
            LinkType::LOOP,
        ] {
            let length = program(link).get_instructions().len();
            assert!(length < 2000, "{link:?}: {length}");
        }
        assert_eq!(default_for(LinkType::ERF), None);
        assert_eq!(default_for(LinkType::INFINIBAND), None);
    }

    fn capture(name: &str) -> CaptureFrameSource {
        CaptureFrameSource::open([format!("{}/../../captures/{name}", env!("CARGO_MANIFEST_DIR"))]).unwrap()
    }

    /// Returns the frame with `tags` VLAN tags.
    fn tagged(frame: &[u8], tags: usize) -> Vec<u8> {
        let tag = [0x81, 0x00, 0x00, 0x07];
        [&frame[..12], &tag.repeat(tags), &frame[12..]].concat()
    }

    #[test]
    fn every_frame_that_means_something_passes_with_and_without_vlan() {
        let filter = program(LinkType::ETHERNET);
        for name in ["rxe-v3.pcap", "rxe-v40-deleg.pcap", "rxe-v42-ip6.pcap.gz", "siw-v42.pcap.gz", "tcp-v3.pcap.gz"] {
            let mut source = capture(name);
            let mut flow = Flow::new(FlowLimits::default());
            let mut passed = 0;
            while let Some(frame) = source.next().unwrap() {
                let meaning = flow.process_frame(&frame);
                for tags in 0..=2 {
                    let passes = filter.filter(&tagged(frame.bytes, tags));
                    let means = !matches!(meaning, FrameContentKind::Unrelated | FrameContentKind::Control);
                    assert!(passes || !means, "{name}: frame {}, {tags} tags: {meaning:?}", frame.number);
                    passed += u32::from(passes);
                }
            }
            assert!(passed > 300, "{name}: {passed}");
        }
    }

    #[test]
    fn few_other_packets_pass() {
        let filter = program(LinkType::ETHERNET);
        let packet = |protocol: u8, ports: [u16; 2], body: &[u8]| {
            let mut frame = vec![2; 12];
            frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend(ports.map(u16::to_be_bytes).concat());
            match protocol {
                17 => frame.extend([0, 0, 0, 0]),
                _ => frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]),
            }
            frame.extend(body);
            frame
        };
        let text = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n and so on and on";
        let arp = [&[0xff; 12][..], &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 36]].concat();
        for other in [
            packet(6, [40_000, 80], text),
            packet(6, [40_000, 22], &[0; 60]),
            packet(6, [40_000, 443], &[0x17, 0x03, 0x03, 0x40, 0x00, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
            packet(6, [40_000, 445], &[]),
            packet(17, [40_000, 53], &[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, b'e', b'x', b'a', b'm', b'p']),
            packet(17, [5353, 5353], text),
            packet(1, [0x0800, 0x1234], text),
            arp,
        ] {
            assert!(!filter.filter(&other), "{other:02x?}");
        }
        let mut message = vec![0x12, 0x34, 0x56, 0x78];
        message.extend([0, 2, 100_005, 3, 0].map(u32::to_be_bytes).concat());
        assert!(filter.filter(&packet(17, [900, 20_048], &message)));
        let record = [&[0x80, 0, 0, 24][..], &message].concat();
        assert!(filter.filter(&packet(6, [900, 20_048], &record)));
        assert!(filter.filter(&packet(17, [50_000, 4791], &[0; 20])));
    }

    #[test]
    fn cooked_frames_pass_as_those_of_ethernet_do() {
        let filter = program(LinkType::LINUX_SLL2);
        let mut source = CaptureFrameSource::from_reader(
            "test",
            Cursor::new(std::fs::read(format!("{}/../../captures/rxe-v42.pcap", env!("CARGO_MANIFEST_DIR"))).unwrap()),
        );
        let mut passed = 0;
        while let Some(frame) = source.next().unwrap() {
            let cooked = [&frame.bytes[12..14], &[0; 18], &frame.bytes[14..]].concat();
            passed += u32::from(filter.filter(&cooked));
        }
        assert!(passed > 1900, "{passed}");
    }
}
