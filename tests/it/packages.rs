//! Content of `cargo package`: every crate has its licences and a README. Use of clap: by the command line only.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of the crates of the workspace besides the program. The name of the package is that of the folder.
fn folders() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    let names = crates.map(|entry| format!("crates/{}", entry.unwrap().file_name().to_string_lossy()));
    let folders: Vec<String> = names.chain(["dissectors".to_owned()]).collect();
    assert!(folders.iter().any(|folder| folder == "crates/conformance"), "{folders:?}");
    folders
}

fn package_name(folder: &str) -> String {
    format!("nfsrdma-{}", folder.rsplit('/').next().unwrap())
}

/// The files of a package.
fn files(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline", "-p", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_crate_packs_its_licences_and_a_readme() {
    let packages = folders().iter().map(|folder| package_name(folder)).collect::<Vec<_>>();
    for package in packages.into_iter().chain(["nfsrdma-inspect".to_owned()]) {
        let files = files(&package);
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"] {
            assert!(files.iter().any(|of| of == file), "{package}: {file} is not among {files:?}");
        }
    }
}

/// Only tests have a server in their process.
#[test]
fn the_program_does_not_contain_the_server_of_the_tests() {
    let tree = |edges: &str| {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--all-features", "--prefix", "none", "-p", "nfsrdma-inspect", "-e", edges])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(tree("normal,build,dev").contains("nfsrdma-mock-server"), "it has another name");
    assert!(!tree("normal,build").contains("nfsrdma-mock-server"));
}

/// The licence links in the crates' folders become files in the package, so they must resolve.
#[test]
fn the_licences_of_all_crates_are_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let ours = std::fs::read(root.join(file)).unwrap();
        for folder in folders() {
            assert_eq!(std::fs::read(root.join(&folder).join(file)).unwrap(), ours, "{folder}/{file}");
        }
    }
}

/// There is no release and no public repository yet, so no document may install from one.
#[test]
fn documents_install_only_from_a_local_path() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    if manifest.contains("\nrepository") {
        return;
    }
    for file in ["README.md", "docs/ci.md"] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        for line in text.lines().filter(|line| line.contains("cargo install")) {
            assert!(line.contains("--path"), "{file}: {line}");
        }
    }
}

/// Returns the Rust files below a directory.
fn rust_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn only_the_command_line_uses_clap() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let (command_line, others): (Vec<_>, Vec<_>) = files.iter().partition(|path| path.starts_with(source.join("cli")));
    let uses_clap = |path: &&&PathBuf| std::fs::read_to_string(path).unwrap().contains("clap::");
    assert!(command_line.iter().any(|path| uses_clap(&path)));
    assert_eq!(others.iter().filter(uses_clap).collect::<Vec<_>>(), Vec::<&&PathBuf>::new());
}
