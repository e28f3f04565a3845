//! Operations on file contents.

use super::*;

pub(super) fn calls() -> Vec<(Args<'static>, &'static str)> {
    vec![
        (Args::COMMIT(Commit4Args { offset: 0, count: 0 }), "00000000 00000000 00000000"),
        (Args::READ(Read4Args { stateid: STATEID, offset: 4096, count: 8192 }), "$stateid 00000000 00001000 00002000"),
        (
            Args::WRITE(Write4Args {
                stateid: STATEID,
                offset: 0,
                stable: StableHow4::UNSTABLE4,
                data: Ddp::Inline(b"hello"),
            }),
            "$stateid 00000000 00000000 00000000 00000005 'hello' 000000",
        ),
        (
            Args::ALLOCATE(Allocate4Args { aa_stateid: STATEID, aa_offset: 0, aa_length: 100_000 }),
            "$stateid 00000000 00000000 00000000 000186a0",
        ),
        (
            Args::COPY(Copy4Args {
                ca_src_stateid: STATEID,
                ca_dst_stateid: STATEID,
                ca_src_offset: 0,
                ca_dst_offset: 0,
                ca_count: 0,
                ca_consecutive: true,
                ca_synchronous: false,
                ca_source_server: locations(),
            }),
            "$stateid $stateid 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 $locations",
        ),
        (
            Args::COPY_NOTIFY(CopyNotify4Args {
                cna_src_stateid: STATEID,
                cna_destination_server: Netloc4::Netaddr(netaddr()),
            }),
            "$stateid 00000003 $netaddr",
        ),
        (
            Args::DEALLOCATE(Deallocate4Args { da_stateid: STATEID, da_offset: 0, da_length: 1 }),
            "$stateid 00000000 00000000 00000000 00000001",
        ),
        (
            Args::IO_ADVISE(IoAdvise4Args {
                iaa_stateid: STATEID,
                iaa_offset: 0,
                iaa_count: 0,
                iaa_hints: bitmap(&[0x12]),
            }),
            "$stateid 00000000 00000000 00000000 00000000 00000001 00000012",
        ),
        (Args::OFFLOAD_CANCEL(OffloadCancel4Args { oca_stateid: STATEID }), "$stateid"),
        (Args::OFFLOAD_STATUS(OffloadStatus4Args { osa_stateid: STATEID }), "$stateid"),
        (
            Args::READ_PLUS(ReadPlus4Args { rpa_stateid: STATEID, rpa_offset: 0, rpa_count: 1 }),
            "$stateid 00000000 00000000 00000001",
        ),
        (
            Args::SEEK(Seek4Args { sa_stateid: STATEID, sa_offset: 0, sa_what: DataContent4::NFS4_CONTENT_HOLE }),
            "$stateid 00000000 00000000 00000001",
        ),
        (
            Args::WRITE_SAME(WriteSame4Args {
                wsa_stateid: STATEID,
                wsa_stable: StableHow4::DATA_SYNC4,
                wsa_adb: AppDataBlock4 {
                    adb_offset: 0,
                    adb_block_size: 4096,
                    adb_block_count: 100,
                    adb_reloff_blocknum: 0,
                    adb_block_num: 1,
                    adb_reloff_pattern: 8,
                    adb_pattern: Opaque(&[0xfe, 0xed]),
                },
            }),
            "$stateid 00000001 00000000 00000000 00000000 00001000 00000000 00000064 00000000 00000000 00000001 00000000 00000008 00000002 feed 0000",
        ),
        (
            Args::CLONE(Clone4Args {
                cl_src_stateid: STATEID,
                cl_dst_stateid: STATEID,
                cl_src_offset: 0,
                cl_dst_offset: 0,
                cl_count: 0,
            }),
            "$stateid $stateid 00000000 00000000 00000000 00000000 00000000 00000000",
        ),
    ]
}

pub(super) fn replies() -> Vec<(Results<'static>, &'static str)> {
    const DONE: StatusUnion<Nfsstat4, Void> = StatusUnion::Ok(Void);
    const FAILED: StatusUnion<Nfsstat4, Void> = StatusUnion::Fail(Nfsstat4::NFS4ERR_DELAY, Void);
    let requirements = CopyRequirements4 { cr_consecutive: true, cr_synchronous: true };
    vec![
        (Results::COMMIT(StatusUnion::Ok(Commit4Resok { writeverf: VERIFIER })), "00000000 $verifier"),
        (
            Results::READ(StatusUnion::Ok(Read4Resok { eof: true, data: Ddp::Inline(b"hello") })),
            "00000000 00000001 00000005 'hello' 000000",
        ),
        (
            Results::WRITE(StatusUnion::Ok(Write4Resok {
                count: 5,
                committed: StableHow4::FILE_SYNC4,
                writeverf: VERIFIER,
            })),
            "00000000 00000005 00000002 $verifier",
        ),
        (Results::ALLOCATE(DONE), "00000000"),
        (
            Results::COPY(CopyRes::Ok(Copy4Resok {
                cr_response: write_response(),
                cr_requirements: requirements.clone(),
            })),
            "00000000 $write_response 00000001 00000001",
        ),
        (Results::COPY(CopyRes::NoReqs(requirements)), "0000276e 00000001 00000001"),
        (
            Results::COPY_NOTIFY(StatusUnion::Ok(CopyNotify4Resok {
                cnr_lease_time: SPAN,
                cnr_stateid: STATEID,
                cnr_source_server: locations(),
            })),
            "00000000 $time $stateid $locations",
        ),
        (Results::DEALLOCATE(DONE), "00000000"),
        (Results::IO_ADVISE(StatusUnion::Ok(IoAdvise4Resok { ior_hints: bitmap(&[2]) })), "00000000 00000001 00000002"),
        (Results::OFFLOAD_CANCEL(FAILED), "00002718"),
        (
            Results::OFFLOAD_STATUS(StatusUnion::Ok(OffloadStatus4Resok {
                osr_count: 1,
                osr_complete: list([Nfsstat4::NFS4_OK]),
            })),
            "00000000 00000000 00000001 00000001 00000000",
        ),
        (
            Results::READ_PLUS(StatusUnion::Ok(ReadPlusRes4 {
                rpr_eof: true,
                rpr_contents: list([
                    ReadPlusContent::Data(Data4 {
                        d_offset: 0,
                        d_data: ReadPlusDdpEligibleData(Ddp::Inline(b"data!")),
                    }),
                    ReadPlusContent::Hole(DataInfo4 { di_offset: 5, di_length: 4091 }),
                ]),
            })),
            "00000000 00000001 00000002 00000000 00000000 00000000 00000005 'data!' 000000 00000001 00000000 00000005 00000000 00000ffb",
        ),
        (
            Results::SEEK(StatusUnion::Ok(SeekRes4 { sr_eof: false, sr_offset: 4096 })),
            "00000000 00000000 00000000 00001000",
        ),
        (Results::WRITE_SAME(StatusUnion::Ok(write_response())), "00000000 $write_response"),
        (Results::CLONE(DONE), "00000000"),
    ]
}
