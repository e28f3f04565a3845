//! Opening of streams with a timeout, from a reserved port if requested and permitted.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::params::{ConnectTarget, NegotiatedTransportParams, TransportKind};
use crate::transport_error::{RpcClientTransportError, RpcClientTransportErrorKind};

/// Reserved ports that few services use, tried downwards.
const RESERVED: std::ops::RangeInclusive<u16> = 665..=1023;

/// Opens a non-blocking stream.
pub(super) fn connect(
    target: &ConnectTarget,
) -> Result<(TcpStream, NegotiatedTransportParams), RpcClientTransportError> {
    let deadline = Instant::now() + target.options.timeout;
    let error = |kind| RpcClientTransportError::at(&target.name, Some(target.address), kind);
    let stream = if target.options.reserved_port { from_reserved_port(target, deadline) } else { None };
    let stream = match stream {
        Some(stream) => stream,
        None => open(target.address, None).and_then(|socket| wait_connected(socket, deadline)),
    };
    let stream = stream.map_err(|errno| error(kind(errno, target)))?;
    let system = |description| move |cause: io::Error| error(RpcClientTransportErrorKind::System(description, cause));
    stream.set_nodelay(true).map_err(system("cannot turn off the delay of small segments"))?;
    let local = stream.local_addr().ok();
    Ok((stream, NegotiatedTransportParams { kind: TransportKind::Tcp, local, peer: target.address, rdma: None }))
}

/// Tries reserved ports until one is free for this server. `None` if the program may not bind any, or none is free.
fn from_reserved_port(target: &ConnectTarget, deadline: Instant) -> Option<Result<TcpStream, Errno>> {
    for port in RESERVED.rev() {
        match open(target.address, Some(port)).and_then(|socket| wait_connected(socket, deadline)) {
            Err(Errno::ACCESS) | Err(Errno::PERM) => return None,
            Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
            other => return Some(other),
        }
    }
    None
}

/// Returns a socket whose connection is being established.
fn open(server: SocketAddr, port: Option<u16>) -> Result<OwnedFd, Errno> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    if let Some(port) = port {
        // While the last connection from a port, to another server, is in TIME-WAIT, the port is free for this one.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        let local = match server {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        };
        rustix::net::bind(&socket, &local)?;
    }
    match rustix::net::connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Waits until the connection is established, or fails.
fn wait_connected(socket: OwnedFd, deadline: Instant) -> Result<TcpStream, Errno> {
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(remaining).map_err(|_| Errno::INVAL)?;
        match rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    sockopt::socket_error(&socket)??;
    Ok(TcpStream::from(socket))
}

/// Returns the error for an errno of a connection attempt.
fn kind(errno: Errno, target: &ConnectTarget) -> RpcClientTransportErrorKind {
    match errno {
        Errno::CONNREFUSED => RpcClientTransportErrorKind::Refused,
        Errno::TIMEDOUT => RpcClientTransportErrorKind::Timeout(target.options.timeout),
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN => RpcClientTransportErrorKind::NoRoute,
        Errno::CONNRESET => RpcClientTransportErrorKind::Reset,
        errno => RpcClientTransportErrorKind::System("cannot connect", errno.into()),
    }
}
