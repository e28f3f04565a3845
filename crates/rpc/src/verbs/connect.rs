//! Connection setup: the device, the route, receive buffers for all messages that may arrive, and the private data.
#![deny(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpcrdma::PrivateData;

use super::super::rpcrdma_framing::InFlightCalls;
use super::super::{
    ConnectTarget, NegotiatedRpcRdmaParameters, NegotiatedTransportParams, OutgoingRpcCall,
    RpcClientConnectionCounters, RpcTransportErrorKind, TransportConnectionId, TransportCredits,
    TransportKind,
};
use super::cm_id::{RdmaCmAddressResolved, RdmaCmAddressUnresolvedState, RdmaCmIdSetup};
use super::connection::VerbsConnection;
use super::memory::VerbsMemoryAccess;
use super::queue_pair::QueuePair;
use super::reverse_responder::VerbsReverseResponder;
use super::shared_connection_resources::{PerServerVerbsResources, VerbsBufferPoolError};
use super::transport::VerbsTransport;
use super::work_queues::VerbsQueueDepths;

/// Entries of a send queue beyond the credits of both directions: Sends that are done, but whose completion is not yet
/// polled.
const UNPOLLED_SENDS: u32 = 16;
/// Entries of a send queue for a Call whose chunks have windows: its Send, and bind and invalidate for two chunks.
const SENDS_WITH_WINDOWS: u32 = 5;
const RESERVED_PORT_TRIES: u16 = 32;
impl VerbsTransport {
    /// Returns the index of the resources for the server on the device that reaches it; creates them if necessary.
    fn server_resources(
        &mut self,
        id: &RdmaCmIdSetup<RdmaCmAddressResolved>,
        target: &ConnectTarget,
    ) -> Result<usize, RpcTransportErrorKind> {
        let (server, wish) = (target.address.ip(), &target.options);
        let wanted = wish.remote_invalidation && wish.private_data;
        let is_it = |shared: &PerServerVerbsResources| {
            let windows = wanted && shared.context.limits.supports_windows;
            id.uses_device(&shared.context)
                && shared.server == server
                && shared.domain.uses_windows == windows
        };
        if let Some(known) = self.devices.iter().position(is_it) {
            return Ok(known);
        }
        let context = id.context()?;
        let windows = wanted && context.limits.supports_windows;
        let mut shared = PerServerVerbsResources::new(context, server, windows)?;
        self.stores.iter().try_for_each(|store| shared.share(store))?;
        self.devices.push(shared);
        Ok(self.devices.len() - 1)
    }

    /// Attempts one connection; see [`RpcTransport::connect`](super::super::RpcTransport::connect). `skip` is the
    /// number of earlier attempts, whose reserved ports are skipped.
    pub(super) fn try_connect(
        &mut self,
        target: &ConnectTarget,
        skip: u16,
    ) -> Result<TransportConnectionId, RpcTransportErrorKind> {
        let wish = &target.options;
        let deadline = Instant::now() + wish.timeout;
        let id = RdmaCmIdSetup::new()?;
        if wish.reserved_port {
            take_reserved_port(&id, target.address, skip * RESERVED_PORT_TRIES)?;
        }
        let id = id.resolve_address(target.address, deadline)?;
        let device = self.server_resources(&id, target)?;
        let id = id.resolve_route(deadline)?;
        let Some(shared) = self.devices.get_mut(device) else { return Err(RpcTransportErrorKind::NoDevice) };

        let most = shared.context.limits.queue_depth;
        let reverse = wish.reverse_credits.min(most / 4);
        // Registrations without windows must not be invalidated: they serve many Calls.
        let windows = shared.domain.uses_windows;
        let (each, more) = match windows {
            true => (SENDS_WITH_WINDOWS, UNPOLLED_SENDS + 4 * OutgoingRpcCall::MAX_PAYLOADS as u32),
            false => (1, UNPOLLED_SENDS),
        };
        let credits = wish.credits.clamp(1, (most.saturating_sub(reverse + more) / each).max(1));
        let depth = VerbsQueueDepths { sends: credits * each + reverse + more, receives: credits + reverse };
        let mut queue = QueuePair::new(id, &shared.domain, &shared.completions, depth)?;
        // A Reply for each Call, and each Call of the reverse direction: RFC 8166 section 3.3.1, RFC 8167 section 4.3.
        let wanted = PrivateData { remote_invalidation: windows, ..wish.private_data() };
        let sent = wish.private_data.then_some(wanted);
        let size = sent.as_ref().unwrap_or(&PrivateData::DEFAULT).receive_threshold_bytes() as usize;
        let mut spare = Vec::new();
        shared
            .take_all(VerbsMemoryAccess::Message, size, depth.receives, &mut spare)
            .map_err(VerbsBufferPoolError::into_kind)?;
        if let Err(kind) = queue.receive(&mut spare) {
            queue.destroy(&mut spare);
            shared.release_all(&mut spare);
            return Err(kind);
        }

        let bytes = sent.as_ref().map(PrivateData::encode);
        let private_data = bytes.as_ref().map(<[u8; 8]>::as_slice).unwrap_or_default();
        let connected = queue.connect(private_data, deadline, &mut spare);
        let (mut queue, answer) = connected.inspect_err(|_| shared.release_all(&mut spare))?;
        let received = PrivateData::find(&answer, 0, &mut NullFieldObserver);
        let rdma = NegotiatedRpcRdmaParameters {
            device: shared.context.name.clone(),
            received_length: answer.len(),
            responder_resources: shared.context.limits.responder_resources,
            ..NegotiatedRpcRdmaParameters::negotiate(sent, received)
        };
        // A server that learns from the private data that it may invalidate handles may do so, as Linux does, which
        // does not announce it itself. RFC 8797 section 4.1 allows it only if both sides announce it, but the
        // announcement cannot be withdrawn.
        if windows {
            queue.use_windows();
        }
        let terms = NegotiatedTransportParams {
            kind: TransportKind::Rdma(shared.context.fabric),
            local: queue.local_address(),
            peer: target.address,
            rdma: Some(rdma),
        };
        let at = self.connections.len();
        self.by_queue.insert(queue.number(), at);
        self.connections.push(VerbsConnection {
            device,
            queue: Some(queue),
            in_flight_calls: InFlightCalls::default(),
            credits: TransportCredits::new(credits),
            responder: VerbsReverseResponder::new(reverse),
            terms,
            counts: RpcClientConnectionCounters::default(),
            free_receive_buffers: spare,
            disconnect_cause: None,
        });
        Ok(TransportConnectionId(u32::try_from(at).unwrap_or(u32::MAX)))
    }
}

/// Binds a free port below 1,024, if the program may; otherwise leaves the port to the system.
fn take_reserved_port(
    id: &RdmaCmIdSetup<RdmaCmAddressUnresolvedState>,
    server: SocketAddr,
    skip: u16,
) -> Result<(), RpcTransportErrorKind> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    // The first port differs between processes. The range avoids well-known ports.
    let first = u16::try_from(std::process::id() % 300).unwrap_or(0);
    for try_at in 0..RESERVED_PORT_TRIES {
        let port = 1023 - (first + skip + try_at) % 300;
        match id.bind(SocketAddr::new(any, port)) {
            // In use by another connection, or by one that closed recently.
            Err(RpcTransportErrorKind::System(_, error))
                if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => {}
            Err(RpcTransportErrorKind::NotAllowed(_)) => return Ok(()),
            other => return other,
        }
    }
    Ok(())
}
