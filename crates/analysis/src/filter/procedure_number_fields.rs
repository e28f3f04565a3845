//! Procedure fields, one for each version of a program: `nfs.procedure_v3 == READ`. The names are those of the
//! procedure tables.

use std::sync::LazyLock;

use nfsrdma_dissectors::field::FlagName;
use nfsrdma_dissectors::field_names;
use nfsrdma_dissectors::nfs::{self, Procedure};
use nfsrdma_dissectors::rpc::Program;

const NFS: &str = "nfs";

/// Returns the protocol of the fields in messages of a program.
pub const fn protocol(program: Program) -> &'static str {
    match program {
        Program::MOUNT => "mount",
        Program::NLM => "nlm",
        Program::NSM => "stat",
        Program::PORTMAP => "portmap",
        Program::NFSACL => "nfsacl",
        Program::RQUOTA => "rquota",
        Program::NFS => NFS,
        program if program.is_transient() => NFS,
        _ => field_names::RPC,
    }
}

/// A field with the procedure of one version of a program.
#[derive(Debug, PartialEq)]
pub struct ProcedureNumberFilterField {
    /// Filter name.
    pub name: String,
    /// The protocol.
    pub protocol: &'static str,
    /// The program; that of callbacks matches all programs with a transient number.
    program: Program,
    version: u32,
    /// Names of the procedures.
    pub names: Vec<FlagName>,
    /// Description.
    pub about: String,
}

impl ProcedureNumberFilterField {
    fn new(program: Program, version: u32) -> Self {
        /// More than any of the programs has.
        const MOST: u32 = 64;
        let protocol = protocol(program);
        let is_callback = program.is_transient();
        let name =
            if is_callback { format!("{protocol}.cb_procedure") } else { format!("{protocol}.procedure_v{version}") };
        let names = (0..MOST)
            .filter_map(|number| Some((number.into(), nfs::procedure_name(program, version, number)?)))
            .collect();
        let program_name = program.name().unwrap_or(protocol);
        let version_of = if is_callback { String::new() } else { format!(" version {version}") };
        let about = format!("Procedure of {program_name}{version_of}, on call and reply");
        Self { name, protocol, program, version, names, about }
    }

    /// Returns `true` for Calls of this program and version.
    pub(super) fn matches_program(&self, program: Option<u64>, version: Option<u64>) -> bool {
        let Some(program) = program.and_then(|program| u32::try_from(program).ok()).map(Program) else {
            return false;
        };
        match self.program.is_transient() {
            true => program.is_transient(),
            false => program == self.program && version == Some(self.version.into()),
        }
    }
}

/// Returns every version of every program that has procedures.
pub(super) fn all() -> &'static [ProcedureNumberFilterField] {
    static ALL: LazyLock<Vec<ProcedureNumberFilterField>> = LazyLock::new(|| {
        let tables = Procedure::PROGRAMS.iter().copied();
        let compounds = [(Program::NFS, 4), (Program::NFS_CB, 4)];
        tables.chain(compounds).map(|(program, version)| ProcedureNumberFilterField::new(program, version)).collect()
    });
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_procedure_names() {
        let of = |name: &str| all().iter().find(|of| of.name == name).unwrap_or_else(|| panic!("{name}"));
        assert!(of("nfs.procedure_v3").names.contains(&(6, "READ")));
        assert!(of("nfs.procedure_v2").names.contains(&(6, "READ")));
        assert!(of("nfs.procedure_v3").names.contains(&(3, "LOOKUP")));
        assert!(of("nfs.procedure_v2").names.contains(&(4, "LOOKUP")));
        assert_eq!(of("nfs.procedure_v4").names, [(0, "NULL"), (1, "COMPOUND")]);
        assert!(of("nfs.cb_procedure").names.contains(&(1, "CB_COMPOUND")));
        assert!(of("mount.procedure_v3").names.contains(&(1, "MNT")));
        assert!(of("nlm.procedure_v4").names.contains(&(2, "LOCK")));
        assert!(of("portmap.procedure_v2").names.contains(&(3, "GETPORT")));
    }

    #[test]
    fn callbacks_have_any_transient_number() {
        let callback = all().iter().find(|of| of.name == "nfs.cb_procedure").unwrap();
        assert!(callback.matches_program(Some(0x4000_0001), Some(1)));
        assert!(!callback.matches_program(Some(100_003), Some(4)));
    }
}
