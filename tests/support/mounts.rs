//! File systems of a daemon's own, for tests that need a small disk or another journal. Root may mount in a namespace of its own;
//! others may too, as root of a user namespace, where the kernel lets them.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::{Home, skipped};

impl Home {
    /// A command that runs `script` with `sh` where it may mount. `None`: the kernel refuses, and the test says that it was skipped.
    pub fn with_own_mounts(&self, script: &str) -> Option<Command> {
        let Some(options) = allowed() else {
            skipped(
                "this kernel lets the tests make no mount namespace (root with CAP_SYS_ADMIN may, or user namespaces)",
            );
            return None;
        };
        let mut command = self.command("unshare");
        command.args(*options).args(["sh", "-c", script]);
        Some(command)
    }
}

/// What `unshare` takes here, tried once.
fn allowed() -> Option<&'static &'static [&'static str]> {
    static ALLOWED: OnceLock<Option<&'static &'static [&'static str]>> = OnceLock::new();
    const WAYS: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    let works = |way: &&&[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(**way)
            .args(["sh", "-c", "mount -t tmpfs none /run"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    *ALLOWED.get_or_init(|| WAYS.iter().find(works))
}
