//! A reference server in memory: NFSv3 with MOUNT and NLM, and NFSv4.0 to 4.2, as far as replay needs a server.
//!
//! It is for tests: it has no clock, and answers the same Calls in the same way each time. Its only permissions are
//! mode bits, which ACCESS and SETATTR respect. Its state is limited; unsupported operations are refused as the RFCs
//! require (`NFS3ERR_NOTSUPP`, `NFS4ERR_NOTSUPP`).

mod auxiliary_programs;
mod call_dispatch;
mod caller_identity;
mod directory_escape_recording;
pub mod fault_injection;
mod file_object;
mod file_tree;
mod filehandle;
pub(crate) mod mock_server;
mod nfs_error;
mod nlm_lock;
mod refusal;
pub(crate) mod reply;
mod v3;
mod v4;

pub use file_tree::MockFileTree;
pub use mock_server::{FileContents, MockDelegationPolicy, MockListingPolicy, MockServer};
pub use nfs_error::MockNfsError;
pub use refusal::MockRefusal;
pub use reply::MockReply;
