//! RPC program numbers.

crate::xdr! { "rpc";
    /// Program number, with its display name. RFC 5531 section 8.3.
    open_enum Program {
        /// The port mapper, and its successor RPCBIND. RFC 1833.
        PORTMAP = 100000,
        /// NFS, every version. RFC 1813, RFC 8881.
        NFS = 100003,
        /// MOUNT, which returns the root filehandle of NFSv2 and NFSv3 exports. RFC 1813 section 5.
        MOUNT = 100005,
        /// Remote quotas.
        RQUOTA = 100011,
        /// The Network Lock Manager. RFC 1813 section 6.
        NLM = 100021,
        /// The Network Status Monitor, which notifies NLM of restarts.
        NSM = 100024,
        /// POSIX access control lists for NFSv2 and NFSv3.
        NFSACL = 100227,
        /// NFSv4 callbacks, with the transient number that most clients choose. RFC 7863 section 2.
        NFS_CB = 0x4000_0000,
    }
}

impl Program {
    /// Returns `true` for a transient program number, which programs assign at run time. A client may use any of these
    /// for its callbacks. RFC 5531 section 8.3.
    pub const fn is_transient(self) -> bool {
        matches!(self.0, 0x4000_0000..=0x5fff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_as_the_output_names_them() {
        let names: Vec<_> = [100_003, 100_005, 100_021, 100_024, 100_227, 100_011, 100_000, 0x4000_0000, 100_004]
            .map(|number| Program(number).to_string())
            .into();
        let expected = ["NFS", "MOUNT", "NLM", "NSM", "NFSACL", "RQUOTA", "PORTMAP", "NFS_CB", "100004"];
        assert_eq!(names, expected);
    }

    #[test]
    fn rfc5531_section_8_3_transient_numbers_are_a_range() {
        let transient = [0x3fff_ffff, 0x4000_0000, 0x5fff_ffff, 0x6000_0000].map(|n| Program(n).is_transient());
        assert_eq!(transient, [false, true, true, false]);
    }
}
