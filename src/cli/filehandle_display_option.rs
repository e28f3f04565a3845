//! Option `--filehandles`.

use clap::{Args, ValueEnum};
use nfsrdma_analysis::names::FilehandleDisplay;

/// Display of filehandles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FilehandleDisplayChoice {
    /// Path, or hash if no name was captured
    Names,
    /// CRC-32 of the filehandle (nfs.fh.hash in Wireshark)
    Hash,
    /// All bytes of the filehandle
    Hex,
    /// Omit filehandles and paths
    None,
}

/// The option.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct FilehandleDisplayArgs {
    /// Filehandle display format
    #[arg(long, value_name = "FORMAT", default_value = "names")]
    filehandles: FilehandleDisplayChoice,
}

impl FilehandleDisplayArgs {
    pub(super) fn selected(self) -> FilehandleDisplay {
        match self.filehandles {
            FilehandleDisplayChoice::Names => FilehandleDisplay::Names,
            FilehandleDisplayChoice::Hash => FilehandleDisplay::Hash,
            FilehandleDisplayChoice::Hex => FilehandleDisplay::Hex,
            FilehandleDisplayChoice::None => FilehandleDisplay::Off,
        }
    }
}
