//! Tables of the operations of NFSv4.0, 4.1, 4.2 and its extensions, and of the callback operations: number, name,
//! arguments and results.
//!
//! A table is a macro that passes its rows to another one: the module of the numbers is below those of the bodies,
//! because some bodies contain numbers.

/// Passes the operations of COMPOUND to the macro `$describe`.
macro_rules! operation_table {
    ($describe:ident) => {
        $describe! { "nfs.opcode";
            /// nfs_opnum4. RFC 7863, RFC 8276 section 8.6.
            Operation, OperationNumber, Args<'a>, Results:
            3 ACCESS(Access4Args) -> Nfs4Res<Access4Resok>, "Check access rights. RFC 8881 section 18.1";
            4 CLOSE(Close4Args) -> Nfs4Res<OpenStateid4Resok>, "Close a file. RFC 8881 section 18.2";
            5 COMMIT(Commit4Args) -> Nfs4Res<Commit4Resok>, "Commit cached data. RFC 8881 section 18.3";
            6 CREATE(Create4Args<'a>) -> Nfs4Res<Create4Resok<'a>>, "Create an object that is not a regular file. RFC 8881 section 18.4";
            7 DELEGPURGE(Delegpurge4Args) -> Nfs4Res, "Purge delegations awaiting recovery. RFC 8881 section 18.5";
            8 DELEGRETURN(Delegreturn4Args) -> Nfs4Res, "Return a delegation. RFC 8881 section 18.6";
            9 GETATTR(Getattr4Args<'a>) -> Nfs4Res<Getattr4Resok<'a>>, "Get attributes. RFC 8881 section 18.7";
            10 GETFH(Void) -> Nfs4Res<ObjectFh4<'a>>, "Get the current filehandle. RFC 8881 section 18.8";
            11 LINK(Link4Args<'a>) -> Nfs4Res<ChangeInfoResok4>, "Create a link to a file. RFC 8881 section 18.9";
            12 LOCK(Lock4Args<'a>) -> LockRes<'a>, "Create a lock. RFC 8881 section 18.10";
            13 LOCKT(Lockt4Args<'a>) -> LocktRes<'a>, "Test for a lock. RFC 8881 section 18.11";
            14 LOCKU(Locku4Args) -> Nfs4Res<LockStateid4Resok>, "Unlock a file. RFC 8881 section 18.12";
            15 LOOKUP(Lookup4Args<'a>) -> Nfs4Res, "Look up a filename. RFC 8881 section 18.13";
            16 LOOKUPP(Void) -> Nfs4Res, "Look up the parent directory. RFC 8881 section 18.14";
            17 NVERIFY(Getattr4Resok<'a>) -> Nfs4Res, "Verify a difference in attributes. RFC 8881 section 18.15";
            18 OPEN(Open4Args<'a>) -> Nfs4Res<Open4Resok<'a>>, "Open a regular file. RFC 8881 section 18.16";
            19 OPENATTR(Openattr4Args) -> Nfs4Res, "Open the named attribute directory. RFC 8881 section 18.17";
            20 OPEN_CONFIRM(OpenConfirm4Args) -> Nfs4Res<OpenStateid4Resok>, "Confirm an open. RFC 7530 section 16.18";
            21 OPEN_DOWNGRADE(OpenDowngrade4Args) -> Nfs4Res<OpenStateid4Resok>, "Reduce open file access. RFC 8881 section 18.18";
            22 PUTFH(ObjectFh4<'a>) -> Nfs4Res, "Set the current filehandle. RFC 8881 section 18.19";
            23 PUTPUBFH(Void) -> Nfs4Res, "Set the public filehandle. RFC 8881 section 18.20";
            24 PUTROOTFH(Void) -> Nfs4Res, "Set the root filehandle. RFC 8881 section 18.21";
            25 READ(Read4Args) -> Nfs4Res<Read4Resok<'a>>, "Read from a file. RFC 8881 section 18.22";
            26 READDIR(Readdir4Args<'a>) -> Nfs4Res<Readdir4Resok<'a>>, "Read a directory. RFC 8881 section 18.23";
            27 READLINK(Void) -> Nfs4Res<Readlink4Resok<'a>>, "Read a symbolic link. RFC 8881 section 18.24";
            28 REMOVE(Remove4Args<'a>) -> Nfs4Res<ChangeInfoResok4>, "Remove an object. RFC 8881 section 18.25";
            29 RENAME(Rename4Args<'a>) -> Nfs4Res<Rename4Resok>, "Rename a directory entry. RFC 8881 section 18.26";
            30 RENEW(Renew4Args) -> Nfs4Res, "Renew a lease. RFC 7530 section 16.28";
            31 RESTOREFH(Void) -> Nfs4Res, "Restore the saved filehandle. RFC 8881 section 18.27";
            32 SAVEFH(Void) -> Nfs4Res, "Save the current filehandle. RFC 8881 section 18.28";
            33 SECINFO(Secinfo4Args<'a>) -> Nfs4Res<Secinfo4Resok<'a>>, "Obtain available security. RFC 8881 section 18.29";
            34 SETATTR(Setattr4Args<'a>) -> Setattr4Res<'a>, "Set attributes. RFC 8881 section 18.30";
            35 SETCLIENTID(Setclientid4Args<'a>) -> SetclientidRes<'a>, "Negotiate a client ID. RFC 7530 section 16.33";
            36 SETCLIENTID_CONFIRM(SetclientidConfirm) -> Nfs4Res, "Confirm a client ID. RFC 7530 section 16.34";
            37 VERIFY(Getattr4Resok<'a>) -> Nfs4Res, "Verify same attributes. RFC 8881 section 18.31";
            38 WRITE(Write4Args<'a>) -> Nfs4Res<Write4Resok>, "Write to a file. RFC 8881 section 18.32";
            39 RELEASE_LOCKOWNER(ReleaseLockowner4Args<'a>) -> Nfs4Res, "Release lock-owner state. RFC 7530 section 16.37";
            40 BACKCHANNEL_CTL(BackchannelCtl4Args<'a>) -> Nfs4Res, "Backchannel control. RFC 8881 section 18.33";
            41 BIND_CONN_TO_SESSION(BindConnToSession4Args) -> Nfs4Res<BindConnToSession4Resok>,
                "Associate a connection with a session. RFC 8881 section 18.34";
            42 EXCHANGE_ID(Box<ExchangeId4Args<'a>>) -> Nfs4Res<Box<ExchangeId4Resok<'a>>>, "Instantiate a client ID. RFC 8881 section 18.35";
            43 CREATE_SESSION(Box<CreateSession4Args<'a>>) -> Nfs4Res<Box<CreateSession4Resok<'a>>>,
                "Create a session and confirm a client ID. RFC 8881 section 18.36";
            44 DESTROY_SESSION(DestroySession4Args) -> Nfs4Res, "Destroy a session. RFC 8881 section 18.37";
            45 FREE_STATEID(FreeStateid4Args) -> Nfs4Res, "Free a stateid without locks. RFC 8881 section 18.38";
            46 GET_DIR_DELEGATION(Box<GetDirDelegation4Args<'a>>) -> Nfs4Res<Box<GetDirDelegation4ResNonFatal<'a>>>,
                "Get a directory delegation. RFC 8881 section 18.39";
            47 GETDEVICEINFO(Getdeviceinfo4Args<'a>) -> Box<GetdeviceinfoRes<'a>>, "Get device information. RFC 8881 section 18.40";
            48 GETDEVICELIST(Getdevicelist4Args) -> Nfs4Res<Getdevicelist4Resok<'a>>,
                "Get all device mappings of a file system. RFC 8881 section 18.41";
            49 LAYOUTCOMMIT(Box<Layoutcommit4Args<'a>>) -> Nfs4Res<Layoutcommit4Resok>,
                "Commit writes made using a layout. RFC 8881 section 18.42";
            50 LAYOUTGET(Layoutget4Args) -> LayoutgetRes<'a>, "Get layout information. RFC 8881 section 18.43";
            51 LAYOUTRETURN(Box<Layoutreturn4Args<'a>>) -> Nfs4Res<Layoutreturn4Resok>,
                "Release layout information. RFC 8881 section 18.44";
            52 SECINFO_NO_NAME(SecinfoNoName4Args) -> Nfs4Res<Secinfo4Resok<'a>>,
                "Get security on an unnamed object. RFC 8881 section 18.45";
            53 SEQUENCE(Sequence4Args) -> Nfs4Res<Sequence4Resok>,
                "Supply per-procedure sequencing and control. RFC 8881 section 18.46";
            54 SET_SSV(SetSsv4Args<'a>) -> Nfs4Res<SetSsv4Resok<'a>>, "Update the SSV of a client ID. RFC 8881 section 18.47";
            55 TEST_STATEID(TestStateid4Args<'a>) -> Nfs4Res<TestStateid4Resok<'a>>,
                "Test stateids for validity. RFC 8881 section 18.48";
            56 WANT_DELEGATION(WantDelegation4Args) -> Nfs4Res<WantDelegation4Resok<'a>>,
                "Request a delegation. RFC 8881 section 18.49";
            57 DESTROY_CLIENTID(DestroyClientid4Args) -> Nfs4Res, "Destroy a client ID. RFC 8881 section 18.50";
            58 RECLAIM_COMPLETE(ReclaimComplete4Args) -> Nfs4Res, "Indicate that reclaims are finished. RFC 8881 section 18.51";
            59 ALLOCATE(Allocate4Args) -> Nfs4Res, "Reserve space in a region of a file. RFC 7862 section 15.1";
            60 COPY(Copy4Args<'a>) -> CopyRes<'a>, "Initiate a server-side copy. RFC 7862 section 15.2";
            61 COPY_NOTIFY(CopyNotify4Args<'a>) -> Nfs4Res<CopyNotify4Resok<'a>>,
                "Notify a source server of a future copy. RFC 7862 section 15.3";
            62 DEALLOCATE(Deallocate4Args) -> Nfs4Res, "Unreserve space in a region of a file. RFC 7862 section 15.4";
            63 IO_ADVISE(IoAdvise4Args<'a>) -> Nfs4Res<IoAdvise4Resok<'a>>,
                "Send hints on I/O access patterns. RFC 7862 section 15.5";
            64 LAYOUTERROR(Layouterror4Args<'a>) -> Nfs4Res, "Provide errors for the layout. RFC 7862 section 15.6";
            65 LAYOUTSTATS(Box<Layoutstats4Args<'a>>) -> Nfs4Res, "Provide statistics for the layout. RFC 7862 section 15.7";
            66 OFFLOAD_CANCEL(OffloadCancel4Args) -> Nfs4Res, "Stop an offloaded operation. RFC 7862 section 15.8";
            67 OFFLOAD_STATUS(OffloadStatus4Args) -> Nfs4Res<OffloadStatus4Resok<'a>>,
                "Poll for the status of an asynchronous operation. RFC 7862 section 15.9";
            68 READ_PLUS(ReadPlus4Args) -> Nfs4Res<ReadPlusRes4<'a>>, "Read data or holes from a file. RFC 7862 section 15.10";
            69 SEEK(Seek4Args) -> Nfs4Res<SeekRes4>, "Find the next data or hole. RFC 7862 section 15.11";
            70 WRITE_SAME(WriteSame4Args<'a>) -> Nfs4Res<WriteResponse4<'a>>,
                "Write an application data block many times. RFC 7862 section 15.12";
            71 CLONE(Clone4Args) -> Nfs4Res, "Clone a range of a file into another file. RFC 7862 section 15.13";
            72 GETXATTR(Getxattr4Args<'a>) -> Nfs4Res<Getxattr4Resok<'a>>, "Get an extended attribute. RFC 8276 section 8.4.1";
            73 SETXATTR(Setxattr4Args<'a>) -> Nfs4Res<Setxattr4Resok>, "Set an extended attribute. RFC 8276 section 8.4.2";
            74 LISTXATTRS(Listxattrs4Args) -> Nfs4Res<Listxattrs4Resok<'a>>, "List extended attributes. RFC 8276 section 8.4.3";
            75 REMOVEXATTR(Removexattr4Args<'a>) -> Nfs4Res<Removexattr4Resok>,
                "Remove an extended attribute. RFC 8276 section 8.4.4";
            10044 ILLEGAL(Void) -> Nfs4Res, "An operation that does not exist. RFC 8881 section 18.52";
        }
    };
}
pub(super) use operation_table;

/// Passes the operations of CB_COMPOUND to the macro `$describe`.
macro_rules! callback_operation_table {
    ($describe:ident) => {
        $describe! { "nfs.cb.operation";
            /// nfs_cb_opnum4. RFC 7863.
            CbOperation, CbOperationNumber, CbArgs<'a>, CbResults:
            3 CB_GETATTR(CbGetattr4Args<'a>) -> Nfs4Res<Getattr4Resok<'a>>, "Get attributes. RFC 8881 section 20.1";
            4 CB_RECALL(CbRecall4Args<'a>) -> Nfs4Res, "Recall a delegation. RFC 8881 section 20.2";
            5 CB_LAYOUTRECALL(CbLayoutrecall4Args<'a>) -> Nfs4Res, "Recall a layout. RFC 8881 section 20.3";
            6 CB_NOTIFY(CbNotify4Args<'a>) -> Nfs4Res, "Notify of directory changes. RFC 8881 section 20.4";
            7 CB_PUSH_DELEG(CbPushDeleg4Args<'a>) -> Nfs4Res, "Offer a delegation that was requested. RFC 8881 section 20.5";
            8 CB_RECALL_ANY(CbRecallAny4Args<'a>) -> Nfs4Res, "Keep any N recallable objects. RFC 8881 section 20.6";
            9 CB_RECALLABLE_OBJ_AVAIL(CbRecallAny4Args<'a>) -> Nfs4Res,
                "Signal resources for recallable objects. RFC 8881 section 20.7";
            10 CB_RECALL_SLOT(CbRecallSlot4Args) -> Nfs4Res, "Change flow control limits. RFC 8881 section 20.8";
            11 CB_SEQUENCE(CbSequence4Args<'a>) -> Nfs4Res<CbSequence4Resok>,
                "Supply backchannel sequencing and control. RFC 8881 section 20.9";
            12 CB_WANTS_CANCELLED(CbWantsCancelled4Args) -> Nfs4Res, "Cancel pending delegation wants. RFC 8881 section 20.10";
            13 CB_NOTIFY_LOCK(CbNotifyLock4Args<'a>) -> Nfs4Res, "Notify of a possible lock availability. RFC 8881 section 20.11";
            14 CB_NOTIFY_DEVICEID(CbNotifyDeviceid4Args<'a>) -> Nfs4Res, "Notify of device ID changes. RFC 8881 section 20.12";
            15 CB_OFFLOAD(CbOffload4Args<'a>) -> Nfs4Res, "Report the results of an asynchronous operation. RFC 7862 section 16.1";
            10044 CB_ILLEGAL(Void) -> Nfs4Res, "A callback operation that does not exist. RFC 8881 section 20.13";
        }
    };
}
pub(super) use callback_operation_table;
