//! `control.group` on a socket that the daemon binds itself.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::unistd::{Group, geteuid};

use crate::support::{Home, skipped, until};

/// A group that is on every machine, and whose only member here is the program that a test runs.
const GROUP: &str = "daemon";

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn members_reach_a_socket_outside_of_the_home_and_nothing_else() {
    let group = Group::from_name(GROUP).unwrap();
    let Some(group) = group.filter(|_| geteuid().is_root()) else {
        return skipped("another user can only be played by root");
    };
    let (home, outside) = (Home::new(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = outside.path().join("run/control.sock");
    let shown = socket.display().to_string();
    let mut command = home.command("sh");
    command
        .args([
            "-c",
            "umask 077; exec \"$0\"",
            env!("CARGO_BIN_EXE_hermesd"),
        ])
        .env("HERMESD_CONTROL_GROUP", GROUP)
        .env("HERMESD_CONTROL_SOCKET", &shown);
    let mut daemon = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let as_user = |group: &str| {
        let mut command = home.command("setpriv");
        command
            .args(["--reuid=65534", group, "--clear-groups"])
            .args([
                env!("CARGO_BIN_EXE_hermesctl"),
                "--socket",
                &shown,
                "status",
            ])
            .env("HOME", outside.path())
            .env_remove("HERMES_HOME");
        home.run(&mut command)
    };
    until("it listens", || {
        (socket.exists() && mode(&socket) == 0o660).then_some(())
    });
    let member = as_user(&format!("--regid={}", group.gid));
    let stranger = as_user("--regid=65534");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(member.code, 0, "{member:?}");
    assert_ne!(stranger.code, 0, "{stranger:?}");
    assert!(
        stranger.stderr.contains("Permission denied"),
        "{stranger:?}"
    );
    assert_eq!(mode(&outside.path().join("run")), 0o710);
    assert_eq!(mode(home.path()), 0o700);
}

#[test]
fn a_socket_in_the_home_is_refused_with_the_remedy() {
    let home = Home::new();
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
    command.env("HERMESD_CONTROL_GROUP", GROUP);
    let mut child = command
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // One that is not refused would go on.
    let status = until("it ends", || child.try_wait().unwrap());
    let mut said = String::new();
    use std::io::Read;
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(status.code(), Some(78), "{said}");
    assert!(
        said.contains("set control.socket to a path outside of it"),
        "{said}"
    );
    assert_eq!(mode(home.path()), 0o700);
}
