//! Notifications of changes of a device of pNFS. RFC 8881 section 20.12.

use super::bitmap_keyed_values::{BitmapKeyedValues, items};
use super::types::{Deviceid4, Layouttype4};

/// notify4 of devices. RFC 8881 section 20.12.1.
pub type NotifyDeviceid4<'a> = BitmapKeyedValues<'a, DeviceNotification, DeviceNotifications>;

crate::xdr! { "nfs";
    /// notify_deviceid_delete4. RFC 8881 section 20.12.1.
    struct NotifyDeviceidDelete4 { ndd_layouttype: Layouttype4 => "nfs.layouttype", ndd_deviceid: Deviceid4 => "nfs.deviceid" }

    /// notify_deviceid_change4. RFC 8881 section 20.12.1.
    struct NotifyDeviceidChange4 {
        ndc_layouttype: Layouttype4 => "nfs.layouttype",
        ndc_deviceid: Deviceid4 => "nfs.deviceid",
        ndc_immediate: bool,
    }
}

items! { "nfs", notify_mask => "nfs.notify_mask", notify_vals => "nfs.notify_vals";
    /// A change of a device: notify_deviceid_type4 and its content. RFC 8881 section 20.12.
    DeviceNotification, DeviceNotifications:
    1 CHANGE NOTIFY_DEVICEID4_CHANGE(NotifyDeviceidChange4), "RFC 8881 section 20.12.3";
    2 DELETE NOTIFY_DEVICEID4_DELETE(NotifyDeviceidDelete4), "RFC 8881 section 20.12.3";
}
