//! contrib/install.sh with a cargo of the test's own: it never installs a program that is older than its sources.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::support::{Home, Ran};

const PROGRAMS: [&str; 2] = ["hermesd", "hermesctl"];

/// A source tree with one source, without anything built.
fn tree() -> Home {
    let (home, root) = (Home::new(), Path::new(env!("CARGO_MANIFEST_DIR")));
    for name in [
        "contrib",
        "packaging",
        "man",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
    ] {
        symlink(root.join(name), home.path().join(name)).expect("a link");
    }
    home.write("Cargo.lock", "");
    home.write("src/lib.rs", "");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    for name in ["Cargo.lock", "src/lib.rs", "src"] {
        aged(&home.path().join(name), hour_ago);
    }
    home
}

fn aged(path: &Path, at: SystemTime) {
    let file = std::fs::File::open(path).expect("a file");
    file.set_modified(at).expect("a time");
}

fn executable(home: &Home, name: &str, text: &str) {
    home.write(name, text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.path().join(name), mode).expect("a mode");
}

fn built(home: &Home) {
    for name in PROGRAMS {
        executable(home, &format!("target/release/{name}"), "built before\n");
    }
}

fn install(home: &Home, has_cargo: bool) -> Ran {
    let path = if has_cargo {
        let script = "#!/bin/sh\nfor p in hermesd hermesctl; do mkdir -p target/release; echo built now > target/release/$p; chmod +x target/release/$p; done\n";
        executable(home, "bin/cargo", script);
        format!("{}:/usr/bin:/bin", home.path().join("bin").display())
    } else {
        "/usr/bin:/bin".to_owned()
    };
    let mut command = home.command("/bin/sh");
    command.arg(home.path().join("contrib/install.sh"));
    command
        .env("DESTDIR", home.path().join("stage"))
        .env("PATH", path);
    home.run(&mut command)
}

fn installed(home: &Home) -> Vec<String> {
    let read =
        |name: &str| std::fs::read_to_string(home.path().join("stage/usr/local/bin").join(name));
    PROGRAMS.iter().filter_map(|name| read(name).ok()).collect()
}

#[test]
fn what_is_newer_than_its_sources_is_installed_as_it_is() {
    let home = tree();
    built(&home);
    let ran = install(&home, true);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(installed(&home), ["built before\n", "built before\n"]);
}

#[test]
fn what_is_older_than_its_sources_is_built_again() {
    let home = tree();
    built(&home);
    let soon = SystemTime::now() + Duration::from_secs(60);
    aged(&home.path().join("src/lib.rs"), soon);
    let ran = install(&home, true);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(installed(&home), ["built now\n", "built now\n"]);
}

#[test]
fn without_cargo_nothing_stale_is_installed() {
    if Path::new("/usr/bin/cargo").exists() {
        return crate::support::skipped("cargo is in /usr/bin");
    }
    let home = tree();
    built(&home);
    aged(
        &home.path().join("src/lib.rs"),
        SystemTime::now() + Duration::from_secs(60),
    );
    let ran = install(&home, false);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("cargo build --release --locked"),
        "{ran:?}"
    );
    assert_eq!(installed(&home), Vec::<String>::new());
}
