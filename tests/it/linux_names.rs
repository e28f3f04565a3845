//! The Linux client's names of NFSv4 operations (`nfs4_procedures`): most are the operation's own, but some are several
//! uses of one operation, distinguished by the other operations of the COMPOUND and by the requested or set attributes.
//!
//! Of the arguments in `operations` this reads `attr_request` of GETATTR (array of attribute names), `obj_attributes`
//! of SETATTR (array of the names of the attributes that are set) and `objtype` of CREATE (`NF4LNK`, ...).

use serde_json::Value;

use crate::program::Transaction;

enum When {
    Always,
    /// Presence of this operation in the COMPOUND.
    Has(&'static str),
    Lacks(&'static str),
    /// GETATTR requests this attribute.
    Asks(&'static str),
    /// SETATTR sets this attribute.
    Sets(&'static str),
    /// CREATE creates an object of this type.
    Makes(&'static str),
}

/// Operation of the Transaction, conditions, and the client's name. The first matching row decides; an operation
/// without a row has its own name.
const NAMES: [(&str, &[When], &str); 19] = {
    use When::{Always, Asks, Has, Lacks, Makes, Sets};
    [
        // An OPEN by name fetches the filehandle; an OPEN of a known file, or a reclaim, has it already.
        ("OPEN", &[Has("GETFH")], "OPEN"),
        ("OPEN", &[Lacks("GETFH")], "OPEN_NOATTR"),
        ("CREATE", &[Makes("NF4LNK")], "SYMLINK"),
        ("CREATE", &[Always], "CREATE"),
        ("SETATTR", &[Sets("acl")], "SETACL"),
        ("SETATTR", &[Always], "SETATTR"),
        // The root is looked up by PUTROOTFH, GETFH and GETATTR, without a LOOKUP.
        ("GETATTR", &[Has("PUTROOTFH"), Has("GETFH")], "LOOKUP_ROOT"),
        ("GETATTR", &[Has("PUTROOTFH"), Asks("lease_time")], "GET_LEASE_TIME"),
        ("GETATTR", &[Asks("supported_attrs")], "SERVER_CAPS"),
        ("GETATTR", &[Asks("fs_locations")], "FS_LOCATIONS"),
        ("GETATTR", &[Asks("acl")], "GETACL"),
        ("GETATTR", &[Asks("maxread")], "FSINFO"),
        ("GETATTR", &[Asks("maxlink")], "PATHCONF"),
        ("GETATTR", &[Asks("space_total")], "STATFS"),
        ("GETATTR", &[Always], "GETATTR"),
        // Linux 7.2 requests a directory delegation in the COMPOUND of a GETATTR.
        ("GET_DIR_DELEGATION", &[Has("GETATTR")], "GETATTR"),
        ("LOOKUP", &[Asks("fs_locations")], "FS_LOCATIONS"),
        ("LOOKUP", &[Always], "LOOKUP"),
        ("GETFH", &[Always], "FSID_PRESENT"),
    ]
};

/// Returns the name of a Transaction in the counters of the Linux client.
pub(crate) fn linux_name(transaction: &Transaction) -> String {
    let operation = transaction.text("operation").unwrap_or_else(|| panic!("no operation: {transaction:?}"));
    if transaction.text("procedure") != Some("COMPOUND") {
        return operation.to_owned();
    }
    let row = NAMES.iter().find(|(of, when, _)| *of == operation && when.iter().all(|w| holds(w, transaction)));
    row.map_or(operation, |(_, _, name)| name).to_owned()
}

fn holds(when: &When, transaction: &Transaction) -> bool {
    match *when {
        When::Always => true,
        When::Has(operation) => transaction.entry(operation).is_some(),
        When::Lacks(operation) => transaction.entry(operation).is_none(),
        When::Asks(attribute) => names(transaction, "GETATTR", "attr_request").contains(&attribute),
        When::Sets(attribute) => names(transaction, "SETATTR", "obj_attributes").contains(&attribute),
        When::Makes(object) => {
            let entry = transaction.entry("CREATE").unwrap_or(&Value::Null);
            entry["objtype"].as_str().unwrap_or_else(|| panic!("CREATE has no `objtype`: {entry}")) == object
        }
    }
}

/// Returns an argument that is an array of attribute names.
fn names<'a>(transaction: &'a Transaction, operation: &str, key: &str) -> Vec<&'a str> {
    let Some(entry) = transaction.entry(operation) else { return Vec::new() };
    let array = entry[key].as_array().unwrap_or_else(|| panic!("{operation} has no array `{key}`: {entry}"));
    array.iter().filter_map(Value::as_str).collect()
}
