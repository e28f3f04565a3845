//! Notifications of changes of a delegated directory. RFC 8881 section 20.4.

use super::attributes::Fattr4;
use super::bitmap_keyed_values::{BitmapKeyedValues, items};
use super::types::{Component4, NfsCookie4, Verifier4};
use crate::xdr::XdrArray;

/// notify4 of directories. RFC 8881 section 20.4.1.
pub type Notify4<'a> = BitmapKeyedValues<'a, Notification<'a>, Notifications>;

crate::xdr! { "nfs";
    /// notify_entry4. RFC 8881 section 20.4.1.
    struct NotifyEntry4<'a> { ne_file: Component4<'a> => "nfs.entry_name", ne_attrs: Fattr4<'a> }

    /// prev_entry4. RFC 8881 section 20.4.1.
    struct PrevEntry4<'a> { pe_prev_entry: NotifyEntry4<'a>, pe_prev_entry_cookie: NfsCookie4 => "nfs.cookie4" }

    /// notify_remove4. RFC 8881 section 20.4.1.
    struct NotifyRemove4<'a> { nrm_old_entry: NotifyEntry4<'a>, nrm_old_entry_cookie: NfsCookie4 => "nfs.cookie4" }

    /// notify_add4. RFC 8881 section 20.4.1.
    struct NotifyAdd4<'a> {
        nad_old_entry: XdrArray<'a, NotifyRemove4<'a>, 1>,
        nad_new_entry: NotifyEntry4<'a>,
        nad_new_entry_cookie: XdrArray<'a, NfsCookie4, 1> => "nfs.cookie4",
        nad_prev_entry: XdrArray<'a, PrevEntry4<'a>, 1>,
        nad_last_entry: bool,
    }

    /// notify_attr4. RFC 8881 section 20.4.1.
    struct NotifyAttr4<'a> { na_changed_entry: NotifyEntry4<'a> }

    /// notify_rename4. RFC 8881 section 20.4.1.
    struct NotifyRename4<'a> { nrn_old_entry: NotifyRemove4<'a>, nrn_new_entry: NotifyAdd4<'a> }

    /// notify_verifier4. RFC 8881 section 20.4.1.
    struct NotifyVerifier4 {
        nv_old_cookieverf: Verifier4 => "nfs.cookie_verf4",
        nv_new_cookieverf: Verifier4 => "nfs.cookie_verf4",
    }
}

items! { "nfs", notify_mask => "nfs.notify_mask", notify_vals => "nfs.notify_vals";
    /// A change of a delegated directory: notify_type4 and its content. RFC 8881 section 20.4.
    Notification<'a>, Notifications:
    0 CHANGE_CHILD_ATTRS NOTIFY4_CHANGE_CHILD_ATTRS(NotifyAttr4<'a>), "RFC 8881 section 20.4.3";
    1 CHANGE_DIR_ATTRS NOTIFY4_CHANGE_DIR_ATTRS(NotifyAttr4<'a>), "RFC 8881 section 20.4.3";
    2 REMOVE_ENTRY NOTIFY4_REMOVE_ENTRY(NotifyRemove4<'a>), "RFC 8881 section 20.4.3";
    3 ADD_ENTRY NOTIFY4_ADD_ENTRY(NotifyAdd4<'a>), "RFC 8881 section 20.4.3";
    4 RENAME_ENTRY NOTIFY4_RENAME_ENTRY(NotifyRename4<'a>), "RFC 8881 section 20.4.3";
    5 CHANGE_COOKIE_VERIFIER NOTIFY4_CHANGE_COOKIE_VERIFIER(NotifyVerifier4), "RFC 8881 section 20.4.3";
}
