//! ACKs and NAKs of the waterfall, compared with the bytes of the frames: offsets of Ethernet, IPv4, UDP and the Base
//! Transport Header (InfiniBand Architecture Specification volume 1, sections 5.2.1, 9.2 and 9.7.5; annex A17).

use nfsrdma_capture_file::CaptureFrameSource;
use ratatui::crossterm::event::KeyCode;

use super::{Screen, path};
use crate::tui::frame_reload::waterfall_bar::{WaterfallBar, WaterfallBarKind};
use crate::tui::tui_view::TuiView;

/// A RoCEv2 packet of a capture with Ethernet and IPv4 without options.
#[derive(Clone, Copy, Debug)]
struct Raw {
    frame: u64,
    time: i64,
    /// IPv4 addresses.
    from: [u8; 4],
    to: [u8; 4],
    opcode: u8,
    psn: u32,
    /// First byte of the ACK Extended Transport Header, after the 12 bytes of the Base Transport Header.
    syndrome: Option<u8>,
}

const ACKNOWLEDGE: u8 = 17;
/// Opcodes of reliable connections with an ACK Extended Transport Header directly after the Base Transport Header.
const WITH_AETH: [u8; 4] = [13, 15, 16, ACKNOWLEDGE];

fn packets(name: &str) -> Vec<Raw> {
    let mut source = CaptureFrameSource::open([path(name)]).unwrap();
    let mut packets = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        let bytes = frame.bytes;
        let is_roce = bytes[12..14] == [8, 0] && bytes[23] == 17 && bytes[36..38] == 4791_u16.to_be_bytes();
        if !is_roce || bytes[42] > 31 {
            continue;
        }
        let opcode = bytes[42];
        packets.push(Raw {
            frame: frame.number.0,
            time: frame.time.0,
            from: bytes[26..30].try_into().unwrap(),
            to: bytes[30..34].try_into().unwrap(),
            opcode,
            psn: u32::from_be_bytes([0, bytes[51], bytes[52], bytes[53]]),
            syndrome: WITH_AETH.contains(&opcode).then(|| bytes[54]),
        });
    }
    packets
}

/// Returns `true` if `a` is at or after `b` in the sequence space of 24 bits.
fn is_at_or_behind(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) & 0xff_ffff < 0x80_0000
}

#[test]
fn each_bar_has_the_first_ack_that_covers_its_last_packet() {
    let packets = packets("rxe-v42.pcap");
    let mut screen = Screen::open("rxe-v42.pcap", 120, 40);
    let mut held = 0;
    for xid in ["0xbc8df27d", "0xb38df27d", "0xae8df27d", "0x908df27d"] {
        screen.ask('g', xid);
        let detail = screen.app.tree.detail.as_ref().unwrap();
        for bar in &detail.waterfall.bars {
            if matches!(bar.kind, WaterfallBarKind::Read(_)) {
                assert_eq!(bar.ack, None);
                continue;
            }
            let last = packets.iter().find(|packet| packet.frame == bar.frames.1.0).unwrap();
            let ack = packets.iter().find(|packet| {
                let is_answer = packet.frame > last.frame && packet.to == last.from;
                // Syndromes 0 to 31 are ACKs.
                is_answer
                    && packet.syndrome.is_some_and(|syndrome| syndrome < 32)
                    && is_at_or_behind(packet.psn, last.psn)
            });
            let seen = bar.ack.map(|seen| (seen.frame.0, seen.time.0));
            assert_eq!(seen, ack.map(|ack| (ack.frame, ack.time)), "{xid} {bar:?}");
            assert!(ack.is_some_and(|ack| ack.opcode == ACKNOWLEDGE), "{xid} {bar:?}");
            held += 1;
        }
    }
    assert!(held > 20, "{held}");
}

#[test]
fn every_nak_is_in_the_waterfall_and_opens_its_frame() {
    let name = "rxe-v42-loss.pcap";
    let naks: Vec<Raw> = packets(name).into_iter().filter(|packet| packet.syndrome.is_some_and(|s| s >= 96)).collect();
    assert!(naks.len() > 5, "{naks:?}");
    let mut screen = Screen::open(name, 120, 40);
    let mut seen = std::collections::BTreeSet::new();
    for nak in &naks {
        let at = (0..screen.app.rows().len()).find(|at| {
            let row = screen.app.rows().get(*at).unwrap().row;
            row.first.0 < nak.frame && nak.frame < row.last.0
        });
        let Some(at) = at else { continue };
        let index = screen.app.rows().get(at).unwrap().row.index;
        screen.press(KeyCode::Esc).keys("1").ask('g', &format!("#{index}"));
        let bars = &screen.app.tree.detail.as_ref().unwrap().waterfall.bars;
        let is_nak = |bar: &&WaterfallBar| matches!(bar.kind, WaterfallBarKind::Nak(_));
        for bar in bars.iter().filter(is_nak) {
            let raw = naks.iter().find(|nak| nak.frame == bar.frames.0.0);
            assert!(raw.is_some_and(|raw| raw.time == bar.from.0), "{bar:?}");
            seen.insert(bar.frames.0.0);
        }
    }
    // NAKs between two Transactions reject packets of neither.
    assert!(seen.len() * 4 >= naks.len() * 3, "{} of {}", seen.len(), naks.len());
    // The row of the last NAK shows its kind, and Enter goes to its frame.
    let bars = screen.app.tree.detail.as_ref().unwrap().waterfall.bars.clone();
    let at = bars.iter().position(|bar| matches!(bar.kind, WaterfallBarKind::Nak(_))).unwrap();
    screen.keys("w").press(KeyCode::Enter);
    for _ in 0..at {
        screen.press(KeyCode::Down);
    }
    let text = screen.text();
    let is_told = text.contains("✗ PSN Sequence Error") || text.contains("PSN Sequence Error ✗");
    assert!(is_told && text.contains("✗ NAK"), "{text}");
    screen.press(KeyCode::Enter);
    assert_eq!((screen.app.view, screen.app.frame_list.at), (TuiView::Frames, bars[at].frames.0.0));
}
