//! Results of NFSv4 that contradict the arguments of their operation.

use nfsrdma_dissectors::nfs::v4::{Args, LockDenied, LockRes, LocktRes, ReadPlusContent, ReadPlusRes4, Results};

/// Returns what a result may not have for the arguments of its operation, as text.
pub fn result_contradiction(arguments: &Args<'_>, results: &Results<'_>) -> Option<String> {
    match (arguments, results) {
        // RFC 7862 section 15.2.3; a count of 0 stands for the rest of the file.
        (Args::COPY(args), Results::COPY(result)) => {
            let copied = result.ok()?.cr_response.wr_count;
            (args.ca_count > 0 && copied > args.ca_count)
                .then(|| format!("COPY of {} bytes copied {copied}", args.ca_count))
        }
        // RFC 7862 section 15.11.3.
        (Args::SEEK(args), Results::SEEK(result)) => {
            let found = result.ok().filter(|found| !found.sr_eof)?.sr_offset;
            (found < args.sa_offset).then(|| format!("SEEK from {} found offset {found}", args.sa_offset))
        }
        (Args::READ_PLUS(args), Results::READ_PLUS(result)) => {
            let end = args.rpa_offset.saturating_add(args.rpa_count.into());
            let data_end = data_end(result.ok()?).filter(|data_end| *data_end > end)?;
            Some(format!("READ_PLUS up to {end} returned data up to {data_end}"))
        }
        // RFC 8881 section 18.48.3.
        (Args::TEST_STATEID(args), Results::TEST_STATEID(result)) => {
            let (tested, returned) = (args.ts_stateids.len(), result.ok()?.tsr_status_codes.len());
            (tested != returned).then(|| format!("TEST_STATEID of {tested} stateids returned {returned} statuses"))
        }
        // RFC 8881 section 18.34.3.
        (Args::BIND_CONN_TO_SESSION(args), Results::BIND_CONN_TO_SESSION(result)) => (result.ok()?.bctsr_sessid
            != args.bctsa_sessid)
            .then(|| "BIND_CONN_TO_SESSION returned another session".to_owned()),
        (Args::LOCK(args), Results::LOCK(LockRes::Denied(denied))) => {
            lock_contradiction("LOCK", (args.offset, args.length), denied)
        }
        (Args::LOCKT(args), Results::LOCKT(LocktRes::Denied(denied))) => {
            lock_contradiction("LOCKT", (args.offset, args.length), denied)
        }
        _ => None,
    }
}

/// Returns the end of the data of READ_PLUS: only holes may be returned beyond what was asked for. RFC 7862 section
/// 15.10.3.
pub(super) fn data_end(results: &ReadPlusRes4<'_>) -> Option<u64> {
    let contents = results.rpr_contents.iter().filter_map(|content| match content {
        ReadPlusContent::Data(data) => Some(data.d_offset.saturating_add(data.d_data.0.length().into())),
        _ => None,
    });
    contents.max()
}

/// Returns the fault of a lock that conflicts with none: it begins behind the other one, or ends before it. RFC 8881
/// sections 18.10.3 and 18.11.3; a length of all ones stands for the rest of the file.
fn lock_contradiction(name: &str, (offset, length): (u64, u64), denied: &LockDenied<'_>) -> Option<String> {
    let end = offset.saturating_add(length);
    let denied_end = denied.offset.saturating_add(denied.length);
    (offset >= denied_end || denied.offset >= end)
        .then(|| format!("{name} of {offset} to {end} denied by a lock of {} to {denied_end}", denied.offset))
}
