//! `play IFACE FILE [TIMES [RATE]]`: sends the frames of a capture on an interface TIMES times at RATE frames per
//! second. Prints the number of frames sent and the rate.
#![allow(clippy::expect_used, clippy::panic, reason = "a tool for measuring")]

#[path = "../benches/player.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod player;

use nfsrdma_capture_file::CaptureFrameSource;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, file, rest @ ..] = arguments.as_slice() else {
        panic!("play IFACE FILE [TIMES [RATE]]");
    };
    let times = rest.first().map_or(1, |times| times.parse().expect("TIMES is a number"));
    let rate = rest.get(1).map(|rate| rate.parse().expect("RATE is a number"));
    let mut player = player::Player::new(CaptureFrameSource::open([file]).expect("the file can be opened"), interface);
    let took = player.play(times, rate);
    let frames = player.len() * times;
    println!("{frames} frames, {:.0} a second", frames as f64 / took.as_secs_f64());
}
