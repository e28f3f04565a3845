//! Set-ups of connections: REQ and REP of the connection manager, put together. InfiniBand Architecture Specification
//! volume 1, section 12.9; RFC 8797.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::address::{Address, Port, Tenant};
use crate::field::Unobserved;
use crate::infiniband::Qpn;
use crate::infiniband::cm::{CommunicationId, IpEnds, Message, PortSpace, ServiceId};
use crate::rpcrdma::PrivateData;

/// The port of NFS over RDMA (RFC 8267 section 6.3).
pub(super) const NFS_RDMA_PORT: Port = Port(20049);

/// What a client connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A service of InfiniBand, and the same in terms of IP (annex A11).
    Id(ServiceId, Option<IpEnds>),
    /// A port of TCP.
    Port(Port),
}

impl Service {
    /// The port of TCP, or of its port space in InfiniBand.
    fn port(&self) -> Option<Port> {
        match self {
            Self::Id(id, ip) => {
                let port = ip.map(|ip| (ip.space, ip.destination_port)).or(id.ip_port());
                port.filter(|(space, _)| *space == PortSpace::TCP).map(|(_, port)| port)
            }
            Self::Port(port) => Some(*port),
        }
    }
}

/// What the two sides told each other as they connected: in the messages of the connection manager, or in the frames that
/// start MPA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the client connected to.
    pub service: Service,
    /// The client's RPC-over-RDMA private data.
    pub client: Option<PrivateData>,
    /// The server's RPC-over-RDMA private data.
    pub server: Option<PrivateData>,
}

impl Terms {
    /// Whether the set-up says that the connection carries RPC-over-RDMA.
    pub fn say_rpc(&self) -> bool {
        self.client.is_some() || self.service.port() == Some(NFS_RDMA_PORT)
    }
}

/// One end of a connection as its set-up told it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) tenant: Tenant,
    pub(super) address: Address,
    pub(super) qpn: Qpn,
}

/// A connection that was set up.
#[derive(Debug)]
pub(super) struct Established {
    pub(super) client: Peer,
    pub(super) server: Peer,
    pub(super) communication: (CommunicationId, CommunicationId),
    pub(super) terms: Terms,
    /// Whether its REQ came after the last REP, if there was one before.
    pub(super) is_anew: bool,
}

/// A REQ that waits for its answer.
#[derive(Debug)]
struct Pending {
    /// The virtual network of the REQ.
    tenant: Tenant,
    qpn: Qpn,
    terms: Terms,
    /// An answer may be seen again.
    is_answered: bool,
}

/// Who asks, who is asked, the asker's name for the connection, and the virtual network.
type Question = (Address, Address, CommunicationId, Tenant);

/// The set-ups that wait for their answer.
#[derive(Debug)]
pub(super) struct SetUps {
    pending: FxHashMap<Question, Pending>,
    /// How many of them each queue pair asks for; that is one, but for those who ask strangely.
    askers: FxHashMap<(Tenant, Address, Address, Qpn), usize>,
    order: VecDeque<Question>,
    bound: usize,
}

impl SetUps {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            pending: FxHashMap::default(),
            askers: FxHashMap::default(),
            order: VecDeque::new(),
            bound: bound.max(1),
        }
    }

    /// Remembers a question; tells whether it is new.
    fn ask(&mut self, question: Question, pending: Pending) -> bool {
        let is_new = self.forget(&question).is_none();
        *self.askers.entry((question.3, question.0, question.1, pending.qpn)).or_default() += 1;
        self.pending.insert(question, pending);
        is_new
    }

    /// Forgets a question, if it is known.
    fn forget(&mut self, question: &Question) -> Option<Pending> {
        let pending = self.pending.remove(question)?;
        let asker = (question.3, question.0, question.1, pending.qpn);
        if let Some(count) = self.askers.get_mut(&asker) {
            *count -= 1;
            if *count == 0 {
                self.askers.remove(&asker);
            }
        }
        Some(pending)
    }

    /// Takes a message, and gives the connection that it completes. Tells in `gave_up` how many set-ups were dropped.
    pub(super) fn message(
        &mut self,
        tenant: Tenant,
        (source, destination): (Address, Address),
        message: &Message<'_>,
        gave_up: &mut impl FnMut(),
    ) -> Option<Established> {
        match message {
            Message::Request(request, ip, private) => {
                let client = PrivateData::find(private.bytes, private.at, &mut Unobserved);
                let terms = Terms { service: Service::Id(request.service_id, *ip), client, server: None };
                let question = (source, destination, request.local_comm_id, tenant);
                let pending = Pending { tenant, qpn: request.local_qpn, terms, is_answered: false };
                if self.ask(question, pending) {
                    self.order.push_back(question);
                }
                while self.order.len() > self.bound {
                    let oldest = self.order.pop_front();
                    let dropped = oldest.and_then(|oldest| self.forget(&oldest));
                    if dropped.is_some_and(|dropped| !dropped.is_answered) {
                        gave_up();
                    }
                }
                None
            }
            Message::Reply(reply, private) => {
                let asked = |tenant| (destination, source, reply.remote_comm_id, tenant);
                // A mirror may show the tags of one direction only.
                let question = [tenant, Tenant::NONE].map(asked);
                let known = question.iter().find(|question| self.pending.contains_key(question))?;
                let pending = self.pending.get_mut(known)?;
                let is_anew = !std::mem::replace(&mut pending.is_answered, true);
                let server = PrivateData::find(private.bytes, private.at, &mut Unobserved);
                Some(Established {
                    client: Peer { tenant: pending.tenant, address: destination, qpn: pending.qpn },
                    server: Peer { tenant, address: source, qpn: reply.local_qpn },
                    communication: (reply.remote_comm_id, reply.local_comm_id),
                    terms: Terms { server, ..pending.terms },
                    is_anew,
                })
            }
            // The client's word for "it is refused" or "it is over" names what the client asked; nothing waits any more.
            Message::Reject(reject, ..) => {
                self.forget(&(destination, source, reject.remote_comm_id, tenant));
                None
            }
            _ => None,
        }
    }

    /// How many set-ups are remembered.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.pending.len().max(self.order.len())
    }

    /// Whether the queue pair is a client's whose set-up was asked for, but not seen answered.
    pub(super) fn asked_for(&self, tenant: Tenant, client: Address, server: Address, qpn: Qpn) -> bool {
        self.askers.contains_key(&(tenant, client, server, qpn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_20049_of_the_tcp_port_space_is_nfs() {
        let terms =
            |service| Terms { service: Service::Id(ServiceId(service), None), client: None, server: None };
        assert!(terms(0x0000_0000_0106_4e51).say_rpc());
        assert!(!terms(0x0000_0000_0106_0cbc).say_rpc());
    }
}
