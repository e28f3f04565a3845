//! The views of the terminal interface: their order, titles and key hints.

/// Number of tables, which keep their cursor and order.
pub(super) const TABLE_COUNT: usize = 4;

/// The views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TuiView {
    /// The list of Transactions, with tree, bytes and waterfall.
    #[default]
    Transactions,
    /// Operation statistics.
    Operations,
    /// Connections with their credits.
    Connections,
    /// Files.
    Files,
    /// The packet list, with tree and bytes.
    Frames,
    /// Charts of throughput and latencies.
    Charts,
}

impl TuiView {
    /// All views, in the order of their keys.
    pub const ALL: [Self; 6] =
        [Self::Transactions, Self::Operations, Self::Connections, Self::Files, Self::Frames, Self::Charts];

    /// Returns the title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Transactions => "Transactions",
            Self::Operations => "Operations",
            Self::Connections => "Connections",
            Self::Files => "Files",
            Self::Frames => "Frames",
            Self::Charts => "Charts",
        }
    }

    /// Returns the title for a narrow screen.
    pub const fn short_title(self) -> &'static str {
        match self {
            Self::Transactions => "Trans",
            Self::Operations => "Ops",
            Self::Connections => "Conn",
            Self::Files => "Files",
            Self::Frames => "Frames",
            Self::Charts => "Charts",
        }
    }

    /// Returns `true` if it has a tree below its list.
    pub(super) const fn has_tree(self) -> bool {
        matches!(self, Self::Transactions | Self::Frames)
    }

    /// Returns the index of its table among the states of tables; `None` if its rows are Transactions or frames.
    pub(super) const fn table_index(self) -> Option<usize> {
        match self {
            Self::Transactions | Self::Frames => None,
            Self::Operations => Some(0),
            Self::Connections => Some(1),
            Self::Files => Some(2),
            Self::Charts => Some(3),
        }
    }

    /// Returns the most important keys, for the last line of the screen.
    pub(super) const fn hints(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Transactions => &[
                ("?", "help"),
                ("q", "quit"),
                ("Enter", "tree"),
                ("w", "waterfall"),
                ("f", "filter"),
                ("/", "search"),
                ("F", "follow"),
                ("e", "error"),
                ("i", "incomplete"),
                ("s", "slow"),
                ("< >", "sort"),
                ("g", "go to"),
                ("m", "mark"),
                ("W", "save"),
                ("y", "copy"),
            ],
            Self::Frames => &[
                ("?", "help"),
                ("q", "quit"),
                ("Enter", "tree"),
                ("f", "filter"),
                ("/", "search"),
                ("< >", "sort"),
                ("g", "go to"),
                ("m", "mark"),
                ("y", "copy"),
                ("c", "copy command"),
                ("Esc", "Transactions"),
            ],
            Self::Charts => &[("?", "help"), ("q", "quit"), ("Up Down", "operation"), ("Enter", "its transactions")],
            Self::Operations | Self::Connections | Self::Files => &[
                ("?", "help"),
                ("q", "quit"),
                ("Enter", "its transactions"),
                ("< >", "sort"),
                ("r", "reverse"),
                ("/", "search"),
                ("Left Right", "columns"),
                ("=", "filter"),
                ("m", "mark"),
                ("y", "copy"),
            ],
        }
    }
}
