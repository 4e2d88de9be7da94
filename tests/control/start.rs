//! Who may have the home and the socket, and what is made of what lies there already.

use std::fs::{File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::fcntl::{Flock, FlockArg};
use serde_json::json;

use crate::support::{Home, Wire, seed_session, skipped, somebody_hands_off, until};

/// Starts a daemon that is to end by itself: its exit code and what it said.
fn refused(home: &Home, environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut daemon = home.spawn(environment);
    (daemon.wait().code(), daemon.log())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// A process of ours that ends with the test.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_socket_of_a_dead_daemon_is_replaced() {
    let home = Home::new();
    seed_session(&home).await;
    drop(UnixListener::bind(home.socket()).unwrap());
    // Another test that is just starting a program may hold it open for a moment.
    until("nobody answers", || {
        UnixStream::connect(home.socket()).is_err().then_some(())
    });
    let daemon = home.start();
    somebody_hands_off(&home);
    daemon.kill();
    // And what `kill -9` leaves behind is just that.
    assert!(home.socket().exists());
    let daemon = home.start();
    somebody_hands_off(&home);
    assert!(daemon.stop().success());
    assert!(!home.socket().exists(), "a clean stop leaves no socket");
}

#[test]
fn a_file_that_is_no_socket_is_left_alone_and_named() {
    let home = Home::new();
    home.write("control.sock", "precious");
    let (code, log) = refused(&home, &[]);
    assert_eq!(code, Some(1), "{log}");
    let path = home.socket().display().to_string();
    assert!(
        log.contains(&path) && log.contains("is not a socket"),
        "{log}"
    );
    assert_eq!(std::fs::read_to_string(home.socket()).unwrap(), "precious");
}

#[test]
fn a_living_socket_of_another_kind_is_not_taken_for_a_leftover() {
    let home = Home::new();
    let theirs = UnixDatagram::bind(home.socket()).unwrap();
    let (code, log) = refused(&home, &[]);
    assert!(matches!(code, Some(1 | 69)), "{code:?} {log}");
    assert!(log.contains(&home.socket().display().to_string()), "{log}");
    UnixDatagram::unbound()
        .unwrap()
        .send_to(b"still there?", home.socket())
        .unwrap();
    let mut words = [0; 12];
    assert_eq!(theirs.recv(&mut words).unwrap(), 12);
}

#[tokio::test]
async fn a_second_daemon_is_refused_on_the_same_home_and_on_the_same_socket() {
    let home = Home::new();
    seed_session(&home).await;
    let first = home.start();
    let (code, log) = refused(&home, &[]);
    assert_eq!(code, Some(69), "{log}");
    assert!(
        log.contains(&format!("process id {}", first.pid())),
        "{log}"
    );

    let other = Home::new();
    let socket = home.socket().display().to_string();
    let (code, log) = refused(&other, &[("HERMESD_CONTROL_SOCKET", &socket)]);
    assert_eq!(code, Some(69), "{log}");
    assert!(
        log.contains(&socket) && log.contains(&format!("process {}", first.pid())),
        "{log}"
    );
    somebody_hands_off(&home);
}

#[test]
fn the_socket_and_its_directory_are_private_whatever_the_umask() {
    let home = Home::new();
    let socket = home.path().join("run/hermesd/control.sock");
    let mut command = home.command("sh");
    command
        .args(["-c", "umask 0; exec \"$0\"", env!("CARGO_BIN_EXE_hermesd")])
        .env("HERMESD_CONTROL_SOCKET", &socket)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let _daemon = Helper(command.spawn().unwrap());
    until("hermesd answers", || UnixStream::connect(&socket).ok());
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    assert_eq!(mode(&home.path().join("run")), 0o700);
    assert_eq!(mode(&home.path().join("hermesd.lock")), 0o600);
}

/// As systemd does it: the listening socket is descriptor 3, and the environment says so.
fn activate(home: &Home, listener: &UnixListener) -> Helper {
    let mut command = home.command("sh");
    command
        .args([
            "-c",
            "export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" 3<&0 </dev/null",
            env!("CARGO_BIN_EXE_hermesd"),
        ])
        .stdin(OwnedFd::from(listener.try_clone().unwrap()))
        .stderr(Stdio::null());
    Helper(command.spawn().unwrap())
}

#[tokio::test]
async fn a_socket_handed_over_by_the_service_manager_is_served_and_found() {
    let home = Home::new();
    seed_session(&home).await;
    let path = home.path().join("handed.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let daemon = activate(&home, &listener);
    // Whoever connects early only waits.
    Wire::greeted(&path).hand_off();
    assert!(!home.socket().exists(), "no socket of its own is made");
    let status = home.hermesctl(&["--json", "status"]);
    assert_eq!(status.code, 0, "{status:?}");
    assert_eq!(status.json()["pid"], daemon.0.id());

    // The socket is the manager's: it outlives the daemon, and the next one takes it over.
    drop(daemon);
    let _daemon = activate(&home, &listener);
    Wire::greeted(&path).hand_off();
}

#[tokio::test]
async fn a_python_gateway_that_holds_its_lock_keeps_the_daemon_out() {
    let home = Home::new();
    seed_session(&home).await;
    let record = json!({"pid": std::process::id(), "kind": "hermes-gateway"});
    home.write("gateway.lock", &record.to_string());
    let file = File::open(home.path().join("gateway.lock")).unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    let (code, log) = refused(&home, &[]);
    assert_eq!(code, Some(69), "{log}");
    assert!(
        log.contains(&format!("process id {}", std::process::id())),
        "{log}"
    );
    assert!(log.contains("hermes gateway stop"), "{log}");
    assert_eq!(
        std::fs::read_to_string(home.path().join("gateway.lock")).unwrap(),
        record.to_string(),
        "the gateway's record is the gateway's"
    );
    drop(lock);
    let _daemon = home.start();
    somebody_hands_off(&home);
    // While we serve, the gateway finds its lock taken.
    let file = File::open(home.path().join("gateway.lock")).unwrap();
    assert!(Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err());
}

#[tokio::test]
async fn a_python_gateway_that_its_state_file_names_keeps_the_daemon_out_only_while_it_lives() {
    let home = Home::new();
    seed_session(&home).await;
    let mut gateway = Helper(Command::new("sleep").arg("60").spawn().unwrap());
    let pid = gateway.0.id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let started: u64 = stat.split(' ').nth(21).unwrap().parse().unwrap();
    let state = |state: &str, started: u64| json!({"pid": pid, "kind": "hermes-gateway", "gateway_state": state, "start_time": started});

    home.write("gateway_state.json", &state("running", started).to_string());
    let (code, log) = refused(&home, &[]);
    assert_eq!(code, Some(69), "{log}");
    assert!(log.contains(&format!("process id {pid}")), "{log}");

    for harmless in [state("running", started + 1), state("stopped", started)] {
        home.write("gateway_state.json", &harmless.to_string());
        home.start();
    }
    home.write("gateway_state.json", &state("running", started).to_string());
    gateway.0.kill().unwrap();
    gateway.0.wait().unwrap();
    let _daemon = home.start();
    somebody_hands_off(&home);
}

#[tokio::test]
async fn another_user_is_turned_away_and_told_why() {
    if !nix::unistd::Uid::effective().is_root() {
        skipped("only root can become another user");
        return;
    }
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    // Where the build puts it, another user may not be able to go.
    let program = home.path().join("hermesctl");
    std::fs::copy(env!("CARGO_BIN_EXE_hermesctl"), &program).unwrap();
    let socket = home.socket().display().to_string();
    let as_nobody = || {
        let mut command = home.command(program.to_str().unwrap());
        command.args(["--socket", &socket, "status"]);
        home.run(command.uid(65534).gid(65534))
    };

    let ran = as_nobody();
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(
        ran.stderr.contains(&socket) && ran.stderr.contains("Permission denied"),
        "{ran:?}"
    );

    // Even where the file system lets them through; however the refusal and their hello cross.
    std::fs::set_permissions(home.socket(), Permissions::from_mode(0o666)).unwrap();
    for _ in 0..20 {
        let ran = as_nobody();
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(
            ran.stderr.contains("user 65534 may not use this socket"),
            "{ran:?}"
        );
    }
    somebody_hands_off(&home);
}
