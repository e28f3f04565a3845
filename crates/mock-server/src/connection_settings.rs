//! Settings of the connections to the server.

use nfsrdma_dissectors::rpcrdma::PrivateData;
use nfsrdma_rpc::TransportKind;

/// Settings of the server side of a loopback connection.
#[derive(Clone, Debug)]
pub struct MockConnectionSettings {
    /// The private data of the server's answer, if any.
    pub private_data: Option<PrivateData>,
    /// Number of credits that the server grants.
    pub credits: u32,
    /// The transport kind that the connection reports.
    pub kind: TransportKind,
    /// `true` if a Call that offers both a Write chunk and a Reply chunk breaks the connection. RFC 8166 section 4.3
    /// allows both, but Linux (up to 7.2) has no buffer for the data of a READ in a Reply chunk, and closes.
    pub refuses_both_chunks: bool,
}

impl Default for MockConnectionSettings {
    /// Returns the settings of a Linux server: 4,096 bytes each way.
    fn default() -> Self {
        let private_data = PrivateData { send_size: 3, receive_size: 3, ..PrivateData::DEFAULT };
        Self {
            private_data: Some(private_data),
            credits: 128,
            kind: TransportKind::Loopback,
            refuses_both_chunks: false,
        }
    }
}
