//! The supported attributes. RFC 8881 section 5.

use nfsrdma_dissectors::nfs::v4::{
    Attribute, Attributes, Bitmap4, Fattr4, FhExpireType, Fsid4, Mode4, NfsFtype4, Nfsstat4, Nfstime4, Settime4,
    Specdata4, mask_and_values, words_for_bits,
};
use nfsrdma_dissectors::xdr::{Opaque, Text};

use super::super::file_object::{MockObject, MockObjectContent};
use super::super::file_tree::MockFileTree;
use super::super::filehandle::{self, MockFileId};
use super::super::nfs_error::MockNfsError;

/// The reported lease time in seconds; it never expires, as there is no clock.
const LEASE: u32 = 90;

/// Number of attributes from which on none is supported.
const ATTRIBUTES_END: u32 = 96;

fn time([seconds, nseconds]: [u32; 2]) -> Nfstime4 {
    Nfstime4 { seconds: seconds.into(), nseconds }
}

/// An attribute of an object: `strings` are its owner and its group, and `supported` is the value of SUPPORTED_ATTRS.
/// `None` if the server does not support the attribute, or can only set it.
fn attribute<'a>(
    tree: &MockFileTree,
    (id, node): (MockFileId, &MockObject),
    handle: &'a [u8; 16],
    [owner, group]: &'a [String; 2],
    supported: &'a [u32],
    bit: u32,
) -> Option<Attribute<'a>> {
    Some(match bit {
        Attributes::SUPPORTED_ATTRS => Attribute::SUPPORTED_ATTRS(Bitmap4::from(supported)),
        Attributes::TYPE => Attribute::TYPE(NfsFtype4(node.kind())),
        Attributes::FH_EXPIRE_TYPE => Attribute::FH_EXPIRE_TYPE(FhExpireType(0)),
        Attributes::CHANGE => Attribute::CHANGE(tree.change_of(node)),
        Attributes::SIZE => Attribute::SIZE(node.size()),
        Attributes::LINK_SUPPORT => Attribute::LINK_SUPPORT(true),
        Attributes::SYMLINK_SUPPORT => Attribute::SYMLINK_SUPPORT(true),
        Attributes::NAMED_ATTR => Attribute::NAMED_ATTR(false),
        Attributes::FSID => Attribute::FSID(Fsid4 { major: 1, minor: 0 }),
        Attributes::UNIQUE_HANDLES => Attribute::UNIQUE_HANDLES(true),
        Attributes::LEASE_TIME => Attribute::LEASE_TIME(LEASE),
        Attributes::RDATTR_ERROR => Attribute::RDATTR_ERROR(Nfsstat4::NFS4_OK),
        Attributes::FILEHANDLE => Attribute::FILEHANDLE(Opaque(handle)),
        Attributes::FILEID => Attribute::FILEID(id),
        Attributes::MAXFILESIZE => Attribute::MAXFILESIZE(256 << 20),
        Attributes::MAXNAME => Attribute::MAXNAME(255),
        Attributes::MAXREAD => Attribute::MAXREAD(tree.io_bytes.into()),
        Attributes::MAXWRITE => Attribute::MAXWRITE(tree.io_bytes.into()),
        Attributes::MODE => Attribute::MODE(Mode4(node.mode)),
        Attributes::NUMLINKS => Attribute::NUMLINKS(node.links()),
        Attributes::OWNER => Attribute::OWNER(Text(owner.as_bytes())),
        Attributes::OWNER_GROUP => Attribute::OWNER_GROUP(Text(group.as_bytes())),
        Attributes::RAWDEV => {
            let [specdata1, specdata2] = node.device_numbers();
            Attribute::RAWDEV(Specdata4 { specdata1, specdata2 })
        }
        Attributes::SPACE_USED => Attribute::SPACE_USED(node.size()),
        Attributes::TIME_ACCESS => Attribute::TIME_ACCESS(time(MockObject::time(node.atime))),
        Attributes::TIME_METADATA => Attribute::TIME_METADATA(time(MockObject::time(node.ctime))),
        Attributes::TIME_MODIFY => Attribute::TIME_MODIFY(time(node.modified())),
        Attributes::MOUNTED_ON_FILEID => Attribute::MOUNTED_ON_FILEID(id),
        _ => return None,
    })
}

/// Returns mask and values of the requested and supported attributes of an object.
pub(super) fn get(
    tree: &MockFileTree,
    id: MockFileId,
    requested: &Bitmap4<'_>,
) -> Result<(Vec<u32>, Vec<u8>), MockNfsError> {
    let node = tree.node(id)?;
    let owner = |number: u32| match (tree.owner_domain, number) {
        (None, _) => number.to_string(),
        (Some(domain), 0) => format!("root@{domain}"),
        (Some(domain), _) => format!("user{number}@{domain}"),
    };
    let (handle, strings) = (filehandle::handle(id), [node.uid, node.gid].map(owner));
    let is_returned = |bit: &u32| tree.withheld_attribute != Some(*bit);
    let is_supported = |bit: &u32| {
        matches!(*bit, Attributes::TIME_ACCESS_SET | Attributes::TIME_MODIFY_SET)
            || attribute(tree, (id, node), &handle, &strings, &[], *bit).is_some()
    };
    let supported = match requested.contains(Attributes::SUPPORTED_ATTRS) {
        true => words_for_bits((0..ATTRIBUTES_END).filter(is_returned).filter(is_supported)),
        false => Vec::new(),
    };
    let bits = requested.iter().take_while(|bit| *bit < ATTRIBUTES_END).filter(is_returned);
    let items: Vec<_> =
        bits.filter_map(|bit| attribute(tree, (id, node), &handle, &strings, &supported, bit)).collect();
    Ok(mask_and_values(&items))
}

/// Sets attributes of an object, and returns their mask.
pub(super) fn set(tree: &mut MockFileTree, id: MockFileId, to: &Fattr4<'_>) -> Result<Vec<u32>, Nfsstat4> {
    let mut bits = Vec::new();
    let mut size = None;
    let time = tree.tick();
    let node = tree.node_mut(id)?;
    for item in to.items() {
        let item = item.map_err(|_| Nfsstat4::NFS4ERR_ATTRNOTSUPP)?;
        let owner = |text: &Text<'_>| std::str::from_utf8(text.0).ok().and_then(|text| text.parse().ok());
        bits.push(match &item {
            Attribute::SIZE(bytes) => {
                size = Some(*bytes);
                Attributes::SIZE
            }
            Attribute::MODE(mode) => {
                // A symbolic link has no mode of its own.
                if !matches!(node.content, MockObjectContent::Link(_)) {
                    node.mode = mode.0 & 0o7777;
                }
                Attributes::MODE
            }
            Attribute::OWNER(text) => {
                node.uid = owner(text).ok_or(Nfsstat4::NFS4ERR_BADOWNER)?;
                Attributes::OWNER
            }
            Attribute::OWNER_GROUP(text) => {
                node.gid = owner(text).ok_or(Nfsstat4::NFS4ERR_BADOWNER)?;
                Attributes::OWNER_GROUP
            }
            // Access times set by a client are not stored: the clock of this server counts changes.
            Attribute::TIME_ACCESS_SET(Settime4::Client(_) | Settime4::Server(_)) => {
                node.atime = time;
                Attributes::TIME_ACCESS_SET
            }
            Attribute::TIME_MODIFY_SET(to) => {
                node.mtime = time;
                node.set_mtime = match to {
                    Settime4::Client(time) => Some([time.seconds as u32, time.nseconds]),
                    Settime4::Server(_) => None,
                };
                Attributes::TIME_MODIFY_SET
            }
            _ => return Err(Nfsstat4::NFS4ERR_ATTRNOTSUPP),
        });
    }
    node.ctime = time;
    if let Some(size) = size {
        tree.truncate(id, size)?;
    }
    Ok(words_for_bits(bits))
}
