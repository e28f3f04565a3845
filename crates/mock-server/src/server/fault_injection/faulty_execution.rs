//! The execution of a Call with a fault.

use nfsrdma_dissectors::nfs::v4::Nfsstat4;
use nfsrdma_dissectors::xdr::{ChunkedDataItem, Cursor};

use super::super::file_tree::MockFileTree;
use super::super::mock_server::MockServer;
use super::super::reply::MockReply;
use super::fault_injector::MockFaultInjector;
use super::message_field_locations::{self, MockCallOperations};
use super::server_fault::{MockFileTreeFault, MockServerFaultKind};

impl MockFaultInjector {
    /// Executes a Call, and injects the fault if this is the occasion.
    fn serve(
        &mut self,
        server: &mut MockServer,
        message: &[u8],
        chunks: &[ChunkedDataItem<'_>],
        reply: &mut MockReply,
    ) {
        let is_transport_fault = matches!(self.fault.kind, MockServerFaultKind::WrongTransport(_));
        let call =
            MockCallOperations::from_call(message, chunks).filter(|call| !is_transport_fault && self.is_occasion(call));
        let serve_correctly = |server: &mut MockServer, reply: &mut MockReply| {
            server.call(Cursor::new(message).with_chunks(chunks), reply);
        };
        let Some(call) = call else { return serve_correctly(server, reply) };
        let operation = self.fault.operation;
        let is_injected = match self.fault.kind {
            MockServerFaultKind::WrongTransport(_) => {
                serve_correctly(server, reply);
                false
            }
            MockServerFaultKind::WrongArgument(field, change) => {
                let mut contents: Vec<Vec<u8>> =
                    chunks.iter().map(|chunk| chunk.bytes.unwrap_or_default().to_vec()).collect();
                let mut altered = message.to_vec();
                let position = message_field_locations::argument(&call, message, chunks, operation, field);
                let is_changed = position.is_some_and(|position| change.apply(&position, &mut altered, &mut contents));
                let items: Vec<_> = chunks
                    .iter()
                    .zip(&contents)
                    .map(|(chunk, content)| ChunkedDataItem { bytes: Some(content), ..*chunk })
                    .collect();
                let (before, state) = (server.tree.clone(), server.state.clone());
                serve_correctly(server, reply);
                let (correct_reply, after) = (reply.complete_message(), std::mem::replace(&mut server.tree, before));
                server.state = state;
                server.call(Cursor::new(&altered).with_chunks(&items), reply);
                is_changed && (reply.complete_message() != correct_reply || server.tree.is_changed_since(&after))
            }
            MockServerFaultKind::WrongResult(field, change) => {
                serve_correctly(server, reply);
                let position = message_field_locations::result(&call, reply, operation, field);
                let is_changed =
                    position.is_some_and(|position| change.apply(&position, &mut reply.message, &mut reply.data));
                for (splice, data) in reply.splices.iter_mut().zip(&reply.data) {
                    splice.length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                }
                is_changed
            }
            MockServerFaultKind::WrongStatus(status) => {
                serve_correctly(server, reply);
                message_field_locations::fail(&call, reply, operation, status)
            }
            MockServerFaultKind::Delayed => {
                let before = server.tree.clone();
                serve_correctly(server, reply);
                let is_delayed = message_field_locations::fail(&call, reply, operation, Nfsstat4::NFS4ERR_DELAY.0);
                if is_delayed {
                    server.tree = before;
                }
                is_delayed
            }
            MockServerFaultKind::Refuses(stat) => {
                serve_correctly(server, reply);
                reply.refuse(stat);
                true
            }
            MockServerFaultKind::WrongFiles(fault) => serve_with_file_fault(fault, server, reply, serve_correctly),
        };
        self.injections += u64::from(is_injected);
    }
}

/// Executes a Call, and changes the resulting files. Returns `false` if that made no difference.
fn serve_with_file_fault(
    fault: MockFileTreeFault,
    server: &mut MockServer,
    reply: &mut MockReply,
    serve: impl Fn(&mut MockServer, &mut MockReply),
) -> bool {
    let (before, state) = (server.tree.clone(), server.state.clone());
    serve(server, reply);
    match fault {
        MockFileTreeFault::Nothing => {
            let is_changed = server.tree.is_changed_since(&before);
            server.tree = before;
            is_changed
        }
        MockFileTreeFault::Twice => {
            let (is_changed, after) = (server.tree.is_changed_since(&before), server.tree.clone());
            if is_changed {
                let first_status = message_field_locations::status(reply);
                server.state = state;
                serve(server, reply);
                // A repeated idempotent Call differs only in times.
                return server.tree.is_changed_since(&after) || message_field_locations::status(reply) != first_status;
            }
            is_changed
        }
        MockFileTreeFault::KeepsNames => MockFileTree::restore_names(&before, &mut server.tree),
        MockFileTreeFault::LosesNames => MockFileTree::remove_new_names(&before, &mut server.tree),
    }
}

impl MockServer {
    /// Executes a Call like [`call`](Self::call), with the fault of the injector if there is one.
    pub(crate) fn serve(&mut self, message: &[u8], chunks: &[ChunkedDataItem<'_>], reply: &mut MockReply) {
        match self.fault_injector.take() {
            Some(mut injector) => {
                injector.serve(self, message, chunks, reply);
                self.fault_injector = Some(injector);
            }
            None => self.call(Cursor::new(message).with_chunks(chunks), reply),
        }
    }
}
