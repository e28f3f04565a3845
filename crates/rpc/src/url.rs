//! Server URLs: `rdma://HOST[:20049]/EXPORT` and `tcp://HOST[:2049]/EXPORT`, with `?vers=3|4.0|4.1|4.2`,
//! `mountport=PORT` and `rpcbindport=PORT`.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The address of a server, an export, and connection options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    /// The transport of the RPC messages.
    pub transport: UrlTransport,
    /// Host name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port of NFS.
    pub default_port: u16,
    /// Path of the export, with its leading `/`; `/` if the URL has no path.
    pub export: String,
    /// NFS version; `None` to negotiate it with the server.
    pub version: Option<NfsVersion>,
    /// Port of MOUNT, for servers without a port mapper.
    pub mount_port: Option<u16>,
    /// Port of the port mapper; `None` for 111.
    pub rpcbind_port: Option<u16>,
}

/// The transport of RPC messages that a URL selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlTransport {
    /// RDMA.
    Rdma,
    /// TCP.
    Tcp,
}

impl UrlTransport {
    /// Returns the URL scheme: the word before `://`.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::Tcp => "tcp",
        }
    }

    /// Returns the default port of NFS. RFC 8166 section 5, RFC 1813 section 2.1.
    pub const fn port(self) -> u16 {
        match self {
            Self::Rdma => 20049,
            Self::Tcp => 2049,
        }
    }
}

/// An NFS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NfsVersion {
    /// NFSv3.
    V3,
    /// NFSv4 of this minor version: 0, 1 or 2.
    V4(u32),
}

impl fmt::Display for NfsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V3 => f.write_str("3"),
            Self::V4(minor) => write!(f, "4.{minor}"),
        }
    }
}

/// The reason that a URL is invalid. The messages show the correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerUrlError {
    /// The URL does not begin with a scheme.
    #[error("no scheme; write rdma://HOST/EXPORT or tcp://HOST/EXPORT")]
    NoScheme,
    /// The URL does not begin with a known scheme. Holds the text found.
    #[error("unknown scheme {0:?}; write rdma://HOST/EXPORT or tcp://HOST/EXPORT")]
    Scheme(String),
    /// The host is missing.
    #[error("no host; write rdma://HOST/EXPORT")]
    Host,
    /// An IPv6 address has no brackets, or a bracket is not closed.
    #[error("IPv6 addresses need brackets: rdma://[2001:db8::1]/EXPORT")]
    Brackets,
    /// The port is not a number from 1 to 65535. Holds the text found.
    #[error("invalid port {0:?}; give a number from 1 to 65535")]
    Port(String),
    /// Unknown query parameter. Holds the text found.
    #[error("unknown query {0:?}; use vers, mountport or rpcbindport")]
    Query(String),
    /// Unsupported NFS version. Holds the text found.
    #[error("unsupported version vers={0}; use 3, 4.0, 4.1 or 4.2")]
    Version(String),
    /// Two hexadecimal digits do not follow a `%`, or the decoded path is not UTF-8.
    #[error("invalid percent encoding; write %25 for a '%'")]
    Percent,
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        let parts = text.split_once("://").filter(|(scheme, _)| !scheme.is_empty());
        let (scheme, rest) = parts.ok_or(ServerUrlError::NoScheme)?;
        let transport = [UrlTransport::Rdma, UrlTransport::Tcp]
            .into_iter()
            .find(|transport| scheme.eq_ignore_ascii_case(transport.scheme()))
            .ok_or_else(|| ServerUrlError::Scheme(scheme.to_owned()))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path);
        let (host, port) = split_host_port(authority)?;
        let mut url = Self {
            transport,
            host: host.to_owned(),
            default_port: port.map_or(Ok(transport.port()), parse_port)?,
            export: percent_decode(if path.is_empty() { "/" } else { path })?,
            version: None,
            mount_port: None,
            rpcbind_port: None,
        };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("vers", version)) => url.version = Some(parse_version(version)?),
                Some(("mountport", port)) => url.mount_port = Some(parse_port(port)?),
                Some(("rpcbindport", port)) => url.rpcbind_port = Some(parse_port(port)?),
                _ => return Err(ServerUrlError::Query(parameter.to_owned())),
            }
        }
        Ok(url)
    }
}

fn split_host_port(authority: &str) -> Result<(&str, Option<&str>), ServerUrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(ServerUrlError::Brackets)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| ServerUrlError::Brackets)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(ServerUrlError::Brackets),
            }
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(ServerUrlError::Brackets),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() { Err(ServerUrlError::Host) } else { Ok((host, port)) }
}

fn parse_port(text: &str) -> Result<u16, ServerUrlError> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| ServerUrlError::Port(text.to_owned()))
}

fn parse_version(text: &str) -> Result<NfsVersion, ServerUrlError> {
    Ok(match text {
        "3" => NfsVersion::V3,
        "4.0" => NfsVersion::V4(0),
        "4.1" => NfsVersion::V4(1),
        "4.2" => NfsVersion::V4(2),
        _ => return Err(ServerUrlError::Version(text.to_owned())),
    })
}

fn percent_decode(path: &str) -> Result<String, ServerUrlError> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or(ServerUrlError::Percent)?;
        bytes.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| ServerUrlError::Percent)
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.transport.scheme())?;
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        if self.default_port != self.transport.port() {
            write!(f, ":{}", self.default_port)?;
        }
        for character in self.export.chars() {
            match character {
                '%' | '?' | ' ' => write!(f, "%{:02x}", u32::from(character))?,
                character => write!(f, "{character}")?,
            }
        }
        let version = self.version.map(|version| format!("vers={version}"));
        let mount = self.mount_port.map(|port| format!("mountport={port}"));
        let rpcbind = self.rpcbind_port.map(|port| format!("rpcbindport={port}"));
        for (at, parameter) in [version, mount, rpcbind].into_iter().flatten().enumerate() {
            write!(f, "{}{parameter}", if at == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl ServerUrl {
    /// Resolves the host to addresses, in the order of the resolver.
    ///
    /// # Errors
    /// Returns an error if the host name cannot be resolved or has no addresses.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![(address, self.default_port).into()]);
        }
        let addresses: Vec<_> = (self.host.as_str(), self.default_port).to_socket_addrs()?.collect();
        if addresses.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(addresses) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> ServerUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_url_has_transport_host_port_export_and_version() {
        let full = url("rdma://nas.example:20050/data/sets?vers=4.2");
        assert_eq!((full.transport, &full.host[..], full.default_port), (UrlTransport::Rdma, "nas.example", 20050));
        assert_eq!((&full.export[..], full.version), ("/data/sets", Some(NfsVersion::V4(2))));
        let short = url("tcp://nas");
        assert_eq!((short.default_port, &short.export[..], short.version), (2049, "/", None));
        assert_eq!(url("RDMA://nas").default_port, 20049);
        assert_eq!(url("tcp://nas/?vers=3&mountport=635").mount_port, Some(635));
    }

    #[test]
    fn an_ipv6_address_stands_in_brackets() {
        let six = url("rdma://[2001:db8::1]:20050/x");
        assert_eq!((&six.host[..], six.default_port), ("2001:db8::1", 20050));
        assert_eq!(six.resolve().unwrap(), ["[2001:db8::1]:20050".parse().unwrap()]);
        assert_eq!("rdma://2001:db8::1/x".parse::<ServerUrl>(), Err(ServerUrlError::Brackets));
        assert_eq!("rdma://[2001:db8::1/x".parse::<ServerUrl>(), Err(ServerUrlError::Brackets));
        assert_eq!("rdma://[nas]/x".parse::<ServerUrl>(), Err(ServerUrlError::Brackets));
    }

    #[test]
    fn invalid_urls_are_errors_with_a_remedy() {
        for (text, what) in [
            ("nas:/export", "no scheme; write rdma://HOST/EXPORT or tcp://HOST/EXPORT"),
            ("nfs://nas/", "unknown scheme \"nfs\"; write rdma://HOST/EXPORT or tcp://HOST/EXPORT"),
            ("rdma:///x", "no host; write rdma://HOST/EXPORT"),
            ("rdma://nas:0/", "invalid port \"0\"; give a number from 1 to 65535"),
            ("rdma://nas:nfs/", "invalid port \"nfs\"; give a number from 1 to 65535"),
            ("rdma://nas/?vers=5", "unsupported version vers=5; use 3, 4.0, 4.1 or 4.2"),
            ("rdma://nas/?soft", "unknown query \"soft\"; use vers, mountport or rpcbindport"),
            ("rdma://nas/100%", "invalid percent encoding; write %25 for a '%'"),
        ] {
            assert_eq!(text.parse::<ServerUrl>().unwrap_err().to_string(), what);
        }
    }

    #[test]
    fn parsed_urls_are_formatted_unchanged() {
        for text in [
            "rdma://nas/data",
            "tcp://nas:20049/a%20b?vers=4.1",
            "tcp://[::1]/",
            "tcp://nas/?mountport=635",
            "tcp://nas/x?vers=3&mountport=635",
            "tcp://nas/x?vers=3&mountport=635&rpcbindport=1111",
            "tcp://nas/x?rpcbindport=1111",
        ] {
            assert_eq!(url(text).to_string(), text);
        }
        assert_eq!(url("tcp://nas/a%20b").export, "/a b");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_url_or_an_error(text: String) {
            if let Ok(url) = format!("tcp://{text}").parse::<ServerUrl>() {
                proptest::prop_assert_eq!(url.to_string().parse::<ServerUrl>(), Ok(url));
            }
        }
    }
}
