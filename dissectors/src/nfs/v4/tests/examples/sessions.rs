//! Clients, sessions and leases.

use super::*;

pub(super) fn calls() -> Vec<(Args<'static>, &'static str)> {
    let exchange_id = |eia_state_protect| {
        Args::EXCHANGE_ID(Box::new(ExchangeId4Args {
            eia_clientowner: ClientOwner4 { co_verifier: VERIFIER, co_ownerid: Opaque(b"Linux NFSv4.2 client") },
            eia_flags: ExchangeIdFlags::EXCHGID4_FLAG_SUPP_MOVED_REFER,
            eia_state_protect,
            eia_client_impl_id: list([NfsImplId4 { nii_domain: NAME, nii_name: NAME, nii_date: SECONDS }]),
        }))
    };
    vec![
        (Args::RENEW(Renew4Args { clientid: 5 }), "00000000 00000005"),
        (
            Args::SETCLIENTID(Setclientid4Args {
                client: NfsClientId4 { verifier: VERIFIER, id: Opaque(b"Linux NFSv4.0 client") },
                callback: CbClient4 { cb_program: 0x4000_0000, cb_location: netaddr() },
                callback_ident: 1,
            }),
            "$verifier 00000014 'Linux NFSv4.0 client' 40000000 $netaddr 00000001",
        ),
        (
            Args::SETCLIENTID_CONFIRM(SetclientidConfirm { clientid: 5, setclientid_confirm: VERIFIER }),
            "00000000 00000005 $verifier",
        ),
        (
            Args::BACKCHANNEL_CTL(BackchannelCtl4Args { bca_cb_program: 0x4000_0000, bca_sec_parms: sec_parms() }),
            "40000000 $sec",
        ),
        (
            Args::BIND_CONN_TO_SESSION(BindConnToSession4Args {
                bctsa_sessid: SESSION,
                bctsa_dir: ChannelDirFromClient4::CDFC4_FORE_OR_BOTH,
                bctsa_use_conn_in_rdma_mode: true,
            }),
            "$session 00000003 00000001",
        ),
        (
            exchange_id(StateProtect4A::None),
            "$verifier 00000014 'Linux NFSv4.2 client' 00000001 00000000 00000001 $name $name $time",
        ),
        (
            exchange_id(StateProtect4A::MachCred(protect_ops())),
            "$verifier 00000014 'Linux NFSv4.2 client' 00000001 00000001 $ops 00000001 $name $name $time",
        ),
        (
            exchange_id(StateProtect4A::Ssv(SsvSpParms4 {
                ssp_ops: protect_ops(),
                ssp_hash_algs: list([Opaque(b"sha")]),
                ssp_encr_algs: list([Opaque(b"aes")]),
                ssp_window: 8,
                ssp_num_gss_handles: 1,
            })),
            "$verifier 00000014 'Linux NFSv4.2 client' 00000001 00000002 $ops 00000001 00000003 'sha' 00 00000001 00000003 'aes' 00 00000008 00000001 00000001 $name $name $time",
        ),
        (
            Args::CREATE_SESSION(Box::new(CreateSession4Args {
                csa_clientid: 5,
                csa_sequence: 1,
                csa_flags: CreateSessionFlags::CREATE_SESSION4_FLAG_CONN_RDMA,
                csa_fore_chan_attrs: channel_attrs(),
                csa_back_chan_attrs: channel_attrs(),
                csa_cb_program: 0x4000_0000,
                csa_sec_parms: sec_parms(),
            })),
            "00000000 00000005 00000001 00000004 $chan $chan 40000000 $sec",
        ),
        (Args::DESTROY_SESSION(DestroySession4Args { dsa_sessionid: SESSION }), "$session"),
        (
            Args::SEQUENCE(Sequence4Args {
                sa_sessionid: SESSION,
                sa_sequenceid: 1,
                sa_slotid: 0,
                sa_highest_slotid: 63,
                sa_cachethis: true,
            }),
            "$session 00000001 00000000 0000003f 00000001",
        ),
        (
            Args::SET_SSV(SetSsv4Args { ssa_ssv: Opaque(b"ssv"), ssa_digest: Opaque(b"digest") }),
            "00000003 'ssv' 00 00000006 'digest' 0000",
        ),
        (Args::DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: 5 }), "00000000 00000005"),
        (Args::RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false }), "00000000"),
    ]
}

pub(super) fn replies() -> Vec<(Results<'static>, &'static str)> {
    const DONE: StatusUnion<Nfsstat4, Void> = StatusUnion::Ok(Void);
    let exchange_id = |eir_state_protect| {
        Results::EXCHANGE_ID(StatusUnion::Ok(Box::new(ExchangeId4Resok {
            eir_clientid: 5,
            eir_sequenceid: 1,
            eir_flags: ExchangeIdFlags::EXCHGID4_FLAG_CONFIRMED_R,
            eir_state_protect,
            eir_server_owner: ServerOwner4 { so_minor_id: 0, so_major_id: Opaque(b"server") },
            eir_server_scope: Opaque(b"server"),
            eir_server_impl_id: list([]),
        })))
    };
    vec![
        (Results::RENEW(DONE), "00000000"),
        (
            Results::SETCLIENTID(SetclientidRes::Ok(SetclientidConfirm { clientid: 5, setclientid_confirm: VERIFIER })),
            "00000000 00000000 00000005 $verifier",
        ),
        (Results::SETCLIENTID(SetclientidRes::ClidInuse(ClidInuse { client_using: netaddr() })), "00002721 $netaddr"),
        (Results::SETCLIENTID_CONFIRM(DONE), "00000000"),
        (Results::BACKCHANNEL_CTL(DONE), "00000000"),
        (
            Results::BIND_CONN_TO_SESSION(StatusUnion::Ok(BindConnToSession4Resok {
                bctsr_sessid: SESSION,
                bctsr_dir: ChannelDirFromServer4::CDFS4_BOTH,
                bctsr_use_conn_in_rdma_mode: false,
            })),
            "00000000 $session 00000003 00000000",
        ),
        (
            exchange_id(StateProtect4R::None),
            "00000000 00000000 00000005 00000001 80000000 00000000 00000000 00000000 00000006 'server' 0000 00000006 'server' 0000 00000000",
        ),
        (
            exchange_id(StateProtect4R::MachCred(protect_ops())),
            "00000000 00000000 00000005 00000001 80000000 00000001 $ops 00000000 00000000 00000006 'server' 0000 00000006 'server' 0000 00000000",
        ),
        (
            exchange_id(StateProtect4R::Ssv(SsvProtInfo4 {
                spi_ops: protect_ops(),
                spi_hash_alg: 0,
                spi_encr_alg: 1,
                spi_ssv_len: 32,
                spi_window: 8,
                spi_handles: list([Opaque(b"handle")]),
            })),
            "00000000 00000000 00000005 00000001 80000000 00000002 $ops 00000000 00000001 00000020 00000008 00000001 00000006 'handle' 0000 00000000 00000000 00000006 'server' 0000 00000006 'server' 0000 00000000",
        ),
        (
            Results::CREATE_SESSION(StatusUnion::Ok(Box::new(CreateSession4Resok {
                csr_sessionid: SESSION,
                csr_sequence: 1,
                csr_flags: CreateSessionFlags::CREATE_SESSION4_FLAG_PERSIST,
                csr_fore_chan_attrs: channel_attrs(),
                csr_back_chan_attrs: channel_attrs(),
            }))),
            "00000000 $session 00000001 00000001 $chan $chan",
        ),
        (Results::DESTROY_SESSION(DONE), "00000000"),
        (
            Results::SEQUENCE(StatusUnion::Ok(Sequence4Resok {
                sr_sessionid: SESSION,
                sr_sequenceid: 1,
                sr_slotid: 0,
                sr_highest_slotid: 63,
                sr_target_highest_slotid: 63,
                sr_status_flags: SequenceStatusFlags::SEQ4_STATUS_LEASE_MOVED,
            })),
            "00000000 $session 00000001 00000000 0000003f 0000003f 00000080",
        ),
        (
            Results::SET_SSV(StatusUnion::Ok(SetSsv4Resok { ssr_digest: Opaque(b"digest") })),
            "00000000 00000006 'digest' 0000",
        ),
        (Results::DESTROY_CLIENTID(DONE), "00000000"),
        (Results::RECLAIM_COMPLETE(DONE), "00000000"),
    ]
}
