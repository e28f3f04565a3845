//! Mask bits as fields: each named bit of a mask is a boolean field of its own.
//!
//! A bit is named after its mask and its name in the specification, in lower case and without the common prefix of the
//! mask: `OPEN4_RESULT_CONFIRM` of `nfs.open_rflags` is `nfs.open_rflags.confirm`. Wireshark mostly uses the same name;
//! [`MASKS`] has its other names.

use std::sync::LazyLock;

use nfsrdma_dissectors::catalog;
use nfsrdma_dissectors::field::registry::RegisteredField;
use nfsrdma_dissectors::field::{FieldKind, FlagName};
use nfsrdma_dissectors::field_names;

/// A bit of a mask.
#[derive(Debug, PartialEq, Eq)]
pub struct MaskBitFilterField {
    /// Filter name.
    pub name: String,
    /// The masks that contain it.
    pub of: Vec<&'static str>,
    /// The bit.
    pub mask: u64,
    /// The masks in which it is present only if set, because they are requests.
    pub requests: Vec<&'static str>,
    /// Description.
    pub about: String,
    /// Source of the definition.
    pub source: String,
}

/// Wireshark's names for the bits of masks.
struct WiresharkMaskBitNames {
    of: &'static [&'static str],
    prefix: &'static str,
    /// Suffixes that differ from the specification.
    suffixes: &'static [(u64, &'static str)],
    /// `true` if an unset bit has no meaning.
    is_request: bool,
}

const fn names(
    fields: &'static [&'static str],
    prefix: &'static str,
    suffixes: &'static [(u64, &'static str)],
) -> WiresharkMaskBitNames {
    WiresharkMaskBitNames { of: fields, prefix, suffixes, is_request: false }
}

const ACCESS: &[(u64, &str)] = &[
    (0x001, "read"),
    (0x002, "lookup"),
    (0x004, "modify"),
    (0x008, "extend"),
    (0x010, "delete"),
    (0x020, "execute"),
    (0x040, "xattr_read"),
    (0x080, "xattr_write"),
    (0x100, "xattr_list"),
];

const MASKS: &[WiresharkMaskBitNames] = &[
    WiresharkMaskBitNames { is_request: true, ..names(&[field_names::NFS_ACCESS_CHECK], "nfs.access_", ACCESS) },
    WiresharkMaskBitNames {
        is_request: true,
        ..names(&[field_names::NFS_ACCESS_SUPPORTED], "nfs.access_supp_", ACCESS)
    },
    names(&[field_names::NFS_ACCESS_RIGHTS], "nfs.access_", ACCESS),
    names(
        &[field_names::NFS_MODE],
        "nfs.mode.",
        &[
            (0x800, "set_user_id"),
            (0x400, "set_group_id"),
            (0x200, "save_swap_text"),
            (0x100, "read_owner"),
            (0x080, "write_owner"),
            (0x040, "exec_owner"),
            (0x020, "read_group"),
            (0x010, "write_group"),
            (0x008, "exec_group"),
            (0x004, "read_other"),
            (0x002, "write_other"),
            (0x001, "exec_other"),
        ],
    ),
    names(
        &[field_names::NFS_MODE3],
        "nfs.mode3.",
        &[
            (0x800, "suid"),
            (0x400, "sgid"),
            (0x200, "sticky"),
            (0x100, "rusr"),
            (0x080, "wusr"),
            (0x040, "xusr"),
            (0x020, "rgrp"),
            (0x010, "wgrp"),
            (0x008, "xgrp"),
            (0x004, "roth"),
            (0x002, "woth"),
            (0x001, "xoth"),
        ],
    ),
    names(
        &[field_names::NFS_FSINFO_PROPERTIES],
        "nfs.fsinfo.properties.",
        &[(0x01, "hardlinks"), (0x02, "symlinks"), (0x08, "pathconf"), (0x10, "setattr")],
    ),
    names(&[field_names::NFS_FATTR4_FS_CHARSET_CAP], "nfs.fattr4.fs_charset_cap.", &[(0x1, "nonutf8"), (0x2, "utf8")]),
    names(
        &[field_names::NFS_ACEFLAGS4],
        "nfs.aceflag4.",
        &[
            (0x01, "file_inherit"),
            (0x02, "dir_inherit"),
            (0x04, "no_prop_inherit"),
            (0x08, "inherit_only"),
            (0x10, "successful_access"),
            (0x20, "failed_access"),
            (0x40, "id_group"),
            (0x80, "inherited_ace"),
        ],
    ),
    names(
        &[field_names::NFS_EXCHANGE_ID_CALL_FLAGS, field_names::NFS_EXCHANGE_ID_REPLY_FLAGS],
        "nfs.exchange_id.flags.",
        &[
            (0x0000_0001, "moved_refer"),
            (0x0000_0002, "moved_migr"),
            (0x0000_0100, "bind_princ"),
            (0x0001_0000, "non_pnfs"),
            (0x0002_0000, "pnfs_mds"),
            (0x0004_0000, "pnfs_ds"),
            (0x4000_0000, "confirmed_rec_a"),
        ],
    ),
    // These bits are described individually.
    names(&[field_names::TCP_FLAGS], "tcp.flags.", &[(0x04, "reset"), (0x08, "push")]),
    names(&[field_names::NFS_CREATE_SESSION_FLAGS], "nfs.create_session.flags.", &[]),
    names(
        &[field_names::NFS_SHARE_ACCESS],
        "nfs.want_",
        &[
            (0x01_0000, "notification.when_resrc_avail"),
            (0x02_0000, "push_deleg_when_uncontended"),
            (0x10_0000, "deleg_timestamps"),
            (0x20_0000, "open_xor_delegation"),
        ],
    ),
];

pub(super) fn all_bits() -> &'static [MaskBitFilterField] {
    static ALL: LazyLock<Vec<MaskBitFilterField>> = LazyLock::new(|| {
        let mut bits: Vec<MaskBitFilterField> = Vec::new();
        for (field, fields) in catalog::all_fields().fields() {
            for bit in bits_of_mask(field, fields) {
                let is_same =
                    |existing: &&mut MaskBitFilterField| (&existing.name, existing.mask) == (&bit.name, bit.mask);
                match bits.iter_mut().find(is_same) {
                    Some(existing) => {
                        existing.of.push(field);
                        existing.requests.extend(bit.requests);
                    }
                    None => bits.push(bit),
                }
            }
        }
        bits
    });
    &ALL
}

/// Returns the bits of one mask. Bits that share a name with others are not fields of their own: together they are a
/// number.
fn bits_of_mask(field: &'static str, fields: &[RegisteredField]) -> Vec<MaskBitFilterField> {
    let mut names: Vec<FlagName> = Vec::new();
    for (mask, name) in fields.iter().filter(|entry| entry.field.kind == FieldKind::Flags).flat_map(|entry| entry.names)
    {
        if !names.iter().any(|(_, existing)| existing == name) {
            names.push((*mask, name));
        }
    }
    let multi_bit_mask =
        names.iter().filter(|(mask, _)| mask.count_ones() > 1).fold(0, |combined, (mask, _)| combined | mask);
    let source = fields.first().map(|entry| entry.doc().source).unwrap_or_default();
    let mask_names = MASKS.iter().find(|mask| mask.of.contains(&field));
    let shared = shared(&names);
    let default_prefix = format!("{field}.");
    let prefix = mask_names.map_or(default_prefix.as_str(), |mask_names| mask_names.prefix);
    let mut bits: Vec<MaskBitFilterField> = Vec::new();
    for (mask, name) in names.iter().filter(|(mask, _)| mask.count_ones() == 1 && mask & multi_bit_mask == 0) {
        let end =
            mask_names.and_then(|mask_names| mask_names.suffixes.iter().find(|(suffix_mask, _)| suffix_mask == mask));
        let end = match end {
            Some((_, end)) => (*end).to_owned(),
            None => name.get(shared..).unwrap_or(name).to_ascii_lowercase(),
        };
        let bit = MaskBitFilterField {
            name: format!("{prefix}{end}"),
            of: vec![field],
            mask: *mask,
            requests: mask_names.filter(|mask_names| mask_names.is_request).map(|_| field).into_iter().collect(),
            about: format!("Whether {name} is set"),
            source: source.clone(),
        };
        if !bits.iter().any(|existing| existing.name == bit.name) {
            bits.push(bit);
        }
    }
    bits
}

/// Returns the length of the common prefix of the names, up to an underscore.
fn shared(names: &[FlagName]) -> usize {
    let Some(((_, first), rest)) = names.split_first() else { return 0 };
    let length = rest.iter().fold(first.len(), |length, (_, name)| {
        first.bytes().zip(name.bytes()).take(length).take_while(|(a, b)| a == b).count()
    });
    let length = if rest.is_empty() { 0 } else { length };
    first.get(..length).and_then(|prefix| prefix.rfind('_')).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(field: &str) -> Vec<(u64, &'static str)> {
        let bits = all_bits().iter().filter(|bit| bit.of.contains(&field));
        bits.map(|bit| (bit.mask, bit.name.as_str())).collect()
    }

    #[test]
    fn bits_are_named_after_their_mask_and_the_specification() {
        let flags = of("nfs.open_rflags");
        assert!(flags.contains(&(0x02, "nfs.open_rflags.confirm")), "{flags:?}");
        assert!(of("nfs.acemask4").contains(&(0x1, "nfs.acemask4.read_data")));
        assert!(of("nfs.acemask4").contains(&(0x1, "nfs.acemask4.list_directory")));
    }

    #[test]
    fn wiresharks_name_comes_first_and_may_be_of_two_masks() {
        let bit = all_bits().iter().find(|bit| bit.name == "nfs.exchange_id.flags.pnfs_mds").unwrap();
        assert_eq!(bit.of, ["nfs.exchange_id.call_flags", "nfs.exchange_id.reply_flags"]);
        assert!(of("nfs.exchange_id.call_flags").contains(&(4, "nfs.exchange_id.flags.supp_fence_ops")));
    }

    #[test]
    fn values_of_several_bits_are_no_boolean_fields() {
        let names: Vec<_> = of("nfs.share_access").into_iter().map(|(_, name)| name).collect();
        assert!(!names.iter().any(|name| name.ends_with("read")), "{names:?}");
        assert!(names.contains(&"nfs.want_deleg_timestamps"));
    }

    #[test]
    fn every_mask_with_names_of_wireshark_is_described_and_has_these_bits() {
        for WiresharkMaskBitNames { of: fields, prefix: begins, suffixes: ends, .. } in MASKS {
            for field in *fields {
                for (mask, end) in *ends {
                    let name = format!("{begins}{end}");
                    assert!(of(field).contains(&(*mask, name.as_str())), "{field}: {name}");
                }
            }
        }
    }
}
