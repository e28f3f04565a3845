//! Connection setup: the device, the route, receive buffers for all messages that may arrive, and the private data.
#![deny(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use nfsrdma_dissectors::field::NullFieldObserver;
use nfsrdma_dissectors::rpcrdma::PrivateData;

use super::cm_id_setup::{RdmaCmAddressResolved, RdmaCmAddressUnresolvedState, RdmaCmIdSetup};
use super::connection::VerbsConnection;
use super::memory::VerbsMemoryAccess;
use super::per_server_resources::{PerServerVerbsResources, VerbsBufferPoolError};
use super::queue_pair::QueuePair;
use super::reverse_responder::VerbsReverseResponder;
use super::transport::VerbsTransport;
use super::work_queues::VerbsQueueDepths;
use crate::outgoing_call::OutgoingRpcCall;
use crate::params::{
    ConnectTarget, NegotiatedRpcRdmaParameters, NegotiatedTransportParams, RpcClientConnectionCounters,
    RpcClientConnectionId, TransportCredits, TransportKind,
};
use crate::rpcrdma_framing::in_flight::InFlightCalls;
use crate::transport_error::RpcClientTransportErrorKind;

/// Entries of a send queue beyond the credits of both directions: Sends that are done, but whose completion is not yet
/// polled.
const UNPOLLED_SENDS: u32 = 16;
/// Entries of a send queue for a Call whose chunks have windows: its Send, and bind and invalidate for two chunks.
const SENDS_WITH_WINDOWS: u32 = 5;
/// Number of ports below 1,024 that one attempt tries.
const RESERVED_PORT_TRIES: u16 = 32;

impl VerbsTransport {
    /// Returns the index of the resources for the server on the device that reaches it; creates them if necessary.
    fn server_resources(
        &mut self,
        id: &RdmaCmIdSetup<RdmaCmAddressResolved>,
        target: &ConnectTarget,
    ) -> Result<usize, RpcClientTransportErrorKind> {
        let (server, options) = (target.address.ip(), &target.options);
        let requests_windows = options.remote_invalidation && options.private_data;
        let is_suitable = |shared: &PerServerVerbsResources| {
            let windows = requests_windows && shared.context.limits.supports_windows;
            id.uses_device(&shared.context) && shared.server == server && shared.domain.uses_windows == windows
        };
        if let Some(index) = self.devices.iter().position(is_suitable) {
            return Ok(index);
        }
        let context = id.context()?;
        let windows = requests_windows && context.limits.supports_windows;
        let mut shared = PerServerVerbsResources::new(context, server, windows)?;
        self.stores.iter().try_for_each(|store| shared.share(store))?;
        self.devices.push(shared);
        Ok(self.devices.len() - 1)
    }

    /// Attempts one connection; see [`RpcClientTransport::connect`](super::super::RpcClientTransport::connect). `skip`
    /// is the number of earlier attempts, whose reserved ports are skipped.
    pub(super) fn try_connect(
        &mut self,
        target: &ConnectTarget,
        skip: u16,
    ) -> Result<RpcClientConnectionId, RpcClientTransportErrorKind> {
        let options = &target.options;
        let deadline = Instant::now() + options.timeout;
        let id = RdmaCmIdSetup::new()?;
        if options.reserved_port {
            take_reserved_port(&id, target.address, skip * RESERVED_PORT_TRIES)?;
        }
        let id = id.resolve_address(target.address, deadline)?;
        let device = self.server_resources(&id, target)?;
        let id = id.resolve_route(deadline)?;
        let Some(shared) = self.devices.get_mut(device) else {
            return Err(RpcClientTransportErrorKind::NoDevice);
        };

        let max_depth = shared.context.limits.queue_depth;
        let reverse_credits = options.reverse_credits.min(max_depth / 4);
        // Registrations without windows must not be invalidated: they serve many Calls.
        let windows = shared.domain.uses_windows;
        let (sends_per_call, extra_sends) = match windows {
            true => (SENDS_WITH_WINDOWS, UNPOLLED_SENDS + 4 * OutgoingRpcCall::MAX_PAYLOADS as u32),
            false => (1, UNPOLLED_SENDS),
        };
        let credits =
            options.credits.clamp(1, (max_depth.saturating_sub(reverse_credits + extra_sends) / sends_per_call).max(1));
        let depth = VerbsQueueDepths {
            sends: credits * sends_per_call + reverse_credits + extra_sends,
            receives: credits + reverse_credits,
        };
        let mut queue = QueuePair::new(id, &shared.domain, &shared.completions, depth)?;
        // A Reply for each Call, and each Call of the reverse direction: RFC 8166 section 3.3.1, RFC 8167 section 4.3.
        let announced_data = PrivateData { remote_invalidation: windows, ..options.private_data() };
        let sent = options.private_data.then_some(announced_data);
        let size = sent.as_ref().unwrap_or(&PrivateData::DEFAULT).receive_threshold_bytes() as usize;
        let mut receive_buffers = Vec::new();
        shared
            .take_all(VerbsMemoryAccess::Message, size, depth.receives, &mut receive_buffers)
            .map_err(VerbsBufferPoolError::into_kind)?;
        if let Err(kind) = queue.receive(&mut receive_buffers) {
            queue.destroy(&mut receive_buffers);
            shared.release_all(&mut receive_buffers);
            return Err(kind);
        }

        let bytes = sent.as_ref().map(PrivateData::encode);
        let private_data = bytes.as_ref().map(<[u8; 8]>::as_slice).unwrap_or_default();
        let result = queue.connect(private_data, deadline, &mut receive_buffers);
        let (mut queue, peer_data) = result.inspect_err(|_| shared.release_all(&mut receive_buffers))?;
        let received = PrivateData::find(&peer_data, 0, &mut NullFieldObserver);
        let rdma = NegotiatedRpcRdmaParameters {
            device: shared.context.name.clone(),
            received_length: peer_data.len(),
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
            responder: VerbsReverseResponder::new(reverse_credits),
            terms,
            counts: RpcClientConnectionCounters::default(),
            free_receive_buffers: receive_buffers,
            disconnect_cause: None,
        });
        Ok(RpcClientConnectionId(u32::try_from(at).unwrap_or(u32::MAX)))
    }
}

/// Binds a free port below 1,024, if the program may; otherwise leaves the port to the system.
fn take_reserved_port(
    id: &RdmaCmIdSetup<RdmaCmAddressUnresolvedState>,
    server: SocketAddr,
    skip: u16,
) -> Result<(), RpcClientTransportErrorKind> {
    let local = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    // The first port differs between processes. The range avoids well-known ports.
    let first = u16::try_from(std::process::id() % 300).unwrap_or(0);
    for try_at in 0..RESERVED_PORT_TRIES {
        let port = 1023 - (first + skip + try_at) % 300;
        match id.bind(SocketAddr::new(local, port)) {
            // In use by another connection, or by one that closed recently.
            Err(RpcClientTransportErrorKind::System(_, error))
                if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => {}
            Err(RpcClientTransportErrorKind::NotAllowed(_)) => return Ok(()),
            other => return other,
        }
    }
    Ok(())
}
