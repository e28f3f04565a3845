//! End-to-end tests: the program on real captures, compared with the counters of the kernels that made them, with a
//! second count of the packets, with tshark, and with the published schema; and its modules through their public
//! interfaces.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking, in its helper functions too"
)]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

mod adversarial;
mod captures;
mod checks;
mod clocks;
mod command_line;
mod comparison;
#[cfg(all(feature = "tui", feature = "live", feature = "parquet"))]
mod completion;
mod conformance;
mod control_characters;
mod counting_views;
mod delivery_times;
mod dialects;
mod display_filter;
mod emission_delay;
mod encode;
#[cfg(feature = "parquet")]
mod export;
mod field_coverage;
mod field_lines;
mod field_names;
mod fields_like_tshark;
mod filters_like_tshark;
mod founding_documents;
mod generated;
mod golden;
mod import_cycles;
mod independent_decoder;
mod iwarp_loss;
mod kernel_counters;
mod lint;
mod linux_names;
#[cfg(all(feature = "live", target_os = "linux"))]
mod live;
mod loss;
mod loss_comparison;
#[cfg_attr(
    not(all(feature = "live", feature = "parquet", feature = "tui")),
    allow(dead_code, reason = "without them, the manual is another one, and is not compared")
)]
mod manual;
mod many_connections;
mod memory;
mod mid_capture;
mod mirrors;
mod mixed_connections;
mod mountstats;
mod mutations;
mod one_direction;
mod outputs;
mod packages;
mod pending;
mod plans;
#[cfg(all(feature = "live", target_os = "linux"))]
#[path = "../../benches/player.rs"]
#[allow(dead_code, reason = "the tool for measuring needs more of it")]
mod player;
mod program;
mod readme;
mod refusals;
mod reordering;
#[path = "../../benches/repeat.rs"]
#[allow(dead_code, reason = "the benchmark needs more of it")]
mod repeat;
mod rfc_names;
mod schema;
mod second_count;
mod second_count_iwarp;
mod seeds;
mod server_counters;
mod single_changes;
mod skipped;
mod snap;
mod tcp_counters;
mod tcp_delivery_times;
mod tcp_loss;
mod trace_comparison;
mod trace_memory;
mod traces;
mod transport;
mod transport_line;
mod transports;
mod truncation;
mod tshark;
#[cfg(feature = "tui")]
mod tui;
mod tunnels;
mod wireshark;
mod words;
mod write;
