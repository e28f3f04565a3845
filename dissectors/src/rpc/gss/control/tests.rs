use super::*;

static FIELD: FieldDefinition = FieldDefinition::group("test", "test", "");

/// Asserts that hand-written bytes decode to `expected` and encode to the same bytes.
fn reads<'a, T: Xdr<'a> + PartialEq + std::fmt::Debug>(bytes: &'a [u8], expected: &T) {
    let mut cursor = Cursor::new(bytes);
    assert_eq!(&T::decode(&mut cursor, &FIELD, &mut NullFieldObserver).unwrap(), expected);
    assert_eq!(cursor.remaining(), 0);
    let mut encoder = Encoder::new();
    expected.encode(&mut encoder);
    assert_eq!(encoder.bytes(), bytes);
}

const LABEL: Rgss3Label<'_> = Rgss3Label { rl_lfs: Rgss3Lfs { rlf_lfs_id: 1, rlf_pi_id: 2 }, rl_label: Text(b"user") };
const LABEL_BYTES: &[u8] = b"\0\0\0\x01\0\0\0\x02\0\0\0\x04user";
const PRIVS: Rgss3Privs<'_> = Rgss3Privs { rp_name: Text(b"copy"), rp_privilege: Opaque(b"priv") };
const PRIVS_BYTES: &[u8] = b"\0\0\0\x04copy\0\0\0\x04priv";

#[test]
fn rfc2203_section_5_2_2_a_token_asks_for_a_context() {
    reads(b"\0\0\0\x05token\0\0\0", &RpcGssInitArg { gss_token: Opaque(b"token") });
}

#[test]
fn rfc2203_section_5_2_3_1_a_new_context_comes_with_status_and_window() {
    let expected = RpcGssInitRes {
        handle: Opaque(b"hd"),
        gss_major: 0,
        gss_minor: 7,
        seq_window: 128,
        gss_token: Opaque(b"token"),
    };
    reads(b"\0\0\0\x02hd\0\0\0\0\0\0\0\0\0\x07\0\0\0\x80\0\0\0\x05token\0\0\0", &expected);
}

#[test]
fn rfc5403_section_3_3_the_verifiers_of_bind_channel_hold_its_arguments_and_results() {
    let args = Rgss2BindChanVerfArgs {
        rbcva_chan_bind_prefix: Text(b"tls-unique"),
        rbcva_chan_bind_oid_hash: Opaque(b"\x2b\x0e"),
        rbcva_chan_mic: Opaque(b"mic!"),
    };
    let bytes = b"\0\0\0\x20\0\0\0\x0atls-unique\0\0\0\0\0\x02\x2b\x0e\0\0\0\0\0\x04mic!";
    reads(bytes, &GssVerifierBody::BindArgs(args));

    let done = Rgss2BindChanVerfRes { rbcvr_res: Rgss2BindChanRes::Ok, rbcvr_mic: Opaque(b"mic!") };
    reads(b"\0\0\0\x0c\0\0\0\0\0\0\0\x04mic!", &GssVerifierBody::BindRes(done));

    let prefixes = [Text(&b"tls-"[..])];
    let other = Rgss2BindChanVerfRes {
        rbcvr_res: Rgss2BindChanRes::PrefNotsupp(XdrArray::from(&prefixes[..])),
        rbcvr_mic: Opaque(b"mic!"),
    };
    let bytes = b"\0\0\0\x18\0\0\0\x01\0\0\0\x01\0\0\0\x04tls-\0\0\0\x04mic!";
    reads(bytes, &GssVerifierBody::BindRes(other));

    let hashes = [Opaque(&b"\x2b\x0e"[..])];
    let other = Rgss2BindChanVerfRes {
        rbcvr_res: Rgss2BindChanRes::HashNotsupp(XdrArray::from(&hashes[..])),
        rbcvr_mic: Opaque(b"mic!"),
    };
    let bytes = b"\0\0\0\x18\0\0\0\x02\0\0\0\x01\0\0\0\x02\x2b\x0e\0\0\0\0\0\x04mic!";
    reads(bytes, &GssVerifierBody::BindRes(other));
}

#[test]
fn rfc4121_section_4_2_6_a_checksum_stays_a_checksum() {
    let token = b"\0\0\0\x1c\x04\x04\x05\xff\xff\xff\xff\xff\0\0\0\0\x2f\x3a\x17\x6c0123456789ab";
    reads(token, &GssVerifierBody::Checksum(Opaque(&token[4..])));
    reads(b"\0\0\0\0", &GssVerifierBody::Checksum(Opaque(b"")));
}

#[test]
fn rfc7861_section_2_7_1_create_binds_assertions_to_a_context() {
    let assertions = [
        Rgss3Assertion::Label(LABEL),
        Rgss3Assertion::Rgss3Privs(PRIVS),
        Rgss3Assertion::Ext(Rgss3AssertionType(9), Opaque(b"x")),
    ];
    let tail =
        [b"\0\0\0\x03\0\0\0\0", LABEL_BYTES, b"\0\0\0\x01", PRIVS_BYTES, b"\0\0\0\x09\0\0\0\x01x\0\0\0"].concat();
    let auth = GssMpAuth { rgmp_handle: Opaque(b"hd"), rgmp_rpcheader_mic: Opaque(b"mic!") };
    let head = b"\0\0\0\x01\0\0\0\x02hd\0\0\0\0\0\x04mic!\0\0\0\x01\0\0\0\x04bind";
    let args = Rgss3CreateArgs {
        rca_mp_auth: Some(auth.clone()),
        rca_chan_bind_mic: Some(Opaque(b"bind")),
        rca_assertions: XdrArray::from(&assertions[..]),
    };
    reads(&[&head[..], &tail].concat(), &args);
    let results = Rgss3CreateRes {
        rcr_handle: Opaque(b"new!"),
        rcr_mp_auth: Some(auth),
        rcr_chan_bind_mic: None,
        rcr_assertions: XdrArray::from(&assertions[..]),
    };
    let head = b"\0\0\0\x04new!\0\0\0\x01\0\0\0\x02hd\0\0\0\0\0\x04mic!\0\0\0\0";
    reads(&[&head[..], &tail].concat(), &results);
}

#[test]
fn rfc7861_section_2_7_2_list_returns_possible_assertions() {
    let what = [Rgss3AssertionType::LABEL, Rgss3AssertionType::PRIVS];
    let args = Rgss3ListArgs { rla_list_what: XdrArray::from(&what[..]) };
    reads(b"\0\0\0\x02\0\0\0\0\0\0\0\x01", &args);
    let (labels, privs) = ([LABEL], [PRIVS]);
    let items =
        [Rgss3ListItem::Labels(XdrArray::from(&labels[..])), Rgss3ListItem::Rgss3Privs(XdrArray::from(&privs[..]))];
    let bytes = [b"\0\0\0\x02\0\0\0\0\0\0\0\x01", LABEL_BYTES, b"\0\0\0\x01\0\0\0\x01", PRIVS_BYTES].concat();
    reads(&bytes, &Rgss3ListRes { items: XdrArray::from(&items[..]) });
}

#[test]
fn rfc7861_section_2_7_control_messages_are_protected_by_their_service() {
    let args = b"\0\0\0\x01\0\0\0\0";
    let integrity = [b"\0\0\0\x0c\0\0\0\x09", &args[..], b"\0\0\0\x04mic!"].concat();
    let privacy = b"\0\0\0\x08unreadit";
    let cases = [
        (RpcGssService::rpc_gss_svc_integrity, &integrity[..]),
        (RpcGssService::rpc_gss_svc_privacy, privacy),
        (RpcGssService::rpc_gss_svc_channel_prot, args),
    ];
    for (service, bytes) in cases {
        let control = GssControlMessageKind::List(service);
        let mut cursor = Cursor::new(bytes);
        control.decode(RpcMessageKind::Call, &mut cursor, &mut NullFieldObserver).unwrap();
        assert_eq!(cursor.remaining(), 0);
        let mut encoder = Encoder::new();
        control.reencode(RpcMessageKind::Call, &mut Cursor::new(bytes), &mut encoder).unwrap();
        assert_eq!(encoder.bytes(), bytes);
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, service in 0u32..6) {
        let service = RpcGssService(service);
        for control in [
            GssControlMessageKind::Init,
            GssControlMessageKind::Create(service),
            GssControlMessageKind::List(service),
            GssControlMessageKind::Unknown,
        ] {
            let _ = control.decode(RpcMessageKind::Call, &mut Cursor::new(&bytes), &mut NullFieldObserver);
            let _ = control.decode(RpcMessageKind::Reply, &mut Cursor::new(&bytes), &mut NullFieldObserver);
            let _ = control.reencode(RpcMessageKind::Call, &mut Cursor::new(&bytes), &mut Encoder::new());
            let _ = control.reencode(RpcMessageKind::Reply, &mut Cursor::new(&bytes), &mut Encoder::new());
        }
        let verifier = [&(bytes.len() as u32).to_be_bytes()[..], &bytes, &[0; 3]].concat();
        let read = GssVerifierBody::decode(&mut Cursor::new(&verifier), &FIELD, &mut NullFieldObserver);
        proptest::prop_assert_eq!(read.is_ok(), bytes.len() <= 400);
    }
}
