//! The built binaries in a home of their own, with nothing of the developer's environment.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use hermesd::client::Client;
use hermesd::store::{OpenMode, Store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::Connection;

use super::until;

/// A temporary home. Dropped last, so declare it before the daemons that use it.
pub struct Home {
    directory: tempfile::TempDir,
}

/// What a program printed and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }
}

impl Home {
    pub fn new() -> Home {
        Home {
            directory: tempfile::Builder::new()
                .prefix("hermesd-test-")
                .permissions(std::fs::Permissions::from_mode(0o700))
                .tempdir()
                .expect("a temporary directory"),
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.path().join("control.sock")
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }

    /// Our own store on this home, beside whatever daemon runs there.
    pub fn store(&self) -> Store {
        Store::open(self.path(), OpenMode::Create, &Default::default()).expect("a store")
    }

    /// A plain SQLite connection, as any other program would have it.
    pub fn sqlite(&self) -> Connection {
        let connection = Connection::open(self.path().join("state.db")).expect("a database");
        connection.busy_timeout(super::PATIENCE).expect("a timeout");
        connection
    }

    /// A command with a clean environment that points to this home.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", path_without_hermes());
        command
            .env("HOME", self.path())
            .env("HERMES_HOME", self.path())
            .env("TZ", "UTC");
        command
    }

    pub fn hermesctl(&self, arguments: &[&str]) -> Ran {
        self.run(
            self.command(env!("CARGO_BIN_EXE_hermesctl"))
                .args(arguments),
        )
    }

    pub fn hermesd(&self, arguments: &[&str]) -> Ran {
        self.run(self.command(env!("CARGO_BIN_EXE_hermesd")).args(arguments))
    }

    pub fn run(&self, command: &mut Command) -> Ran {
        command.stdin(Stdio::null());
        // A program that was copied here a moment ago counts as being written to until every child that another test
        // forked meanwhile has closed its copy of the descriptor.
        let output = until("the program starts", || match command.output() {
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => None,
            outcome => Some(outcome.expect("a program that starts")),
        });
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn start(&self) -> Daemon {
        self.start_with(&[])
    }

    /// Starts hermesd and waits until it answers. Settings come as environment variables.
    pub fn start_with(&self, environment: &[(&str, &str)]) -> Daemon {
        let mut daemon = self.spawn(environment);
        until("hermesd answers", || {
            assert_eq!(
                daemon.child.try_wait().expect("a child"),
                None,
                "hermesd ended; see {:?}",
                daemon.log()
            );
            std::os::unix::net::UnixStream::connect(self.socket()).ok()
        });
        daemon
    }

    /// Starts hermesd without waiting for anything.
    pub fn spawn(&self, environment: &[(&str, &str)]) -> Daemon {
        let log = self.path().join("test.log");
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .expect("a log");
        let journal = environment.iter().find(|(name, _)| *name == JOURNAL_IS_AT);
        let mut command = match journal {
            Some((_, directory)) => self.with_journal(directory),
            None => self.command(env!("CARGO_BIN_EXE_hermesd")),
        };
        // Only tests about the limits wait for them.
        command.env("HERMESD_TEST_RATES", "unlimited");
        command.envs(environment.iter().copied());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        Daemon {
            child: command.spawn().expect("hermesd"),
            socket: self.socket(),
            log,
        }
    }
}

/// Names a directory with a socket in it that is the journal's to a daemon.
pub const JOURNAL_IS_AT: &str = "TEST_JOURNAL_IS_AT";

impl Home {
    /// The journal's place cannot be configured, so the daemon gets a file system in which it is another.
    fn with_journal(&self, directory: &str) -> Command {
        let mut command = self
            .with_own_mounts(MOUNT_JOURNAL)
            .expect("what Journald::at has asked for");
        command.args([directory, env!("CARGO_BIN_EXE_hermesd")]);
        command
    }
}

/// Makes the directory `$0` the journal's and becomes `$1`.
const MOUNT_JOURNAL: &str = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && \
                             mount --bind \"$0\" /run/systemd/journal && exec \"$1\"";

/// A Hermes that is installed here would become the agent.
fn path_without_hermes() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).filter(|dir| !dir.join("hermes").exists());
    std::env::join_paths(directories).unwrap_or_default()
}

/// A daemon process; killed when dropped.
pub struct Daemon {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Daemon {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.socket).await.expect("a connection")
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("a signal");
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("an end");
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    pub fn child_lives(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Two signals, which cut off what is in progress, and how it ended.
    pub fn cut_off(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGINT);
        self.wait()
    }

    pub fn wait(&mut self) -> ExitStatus {
        until("hermesd ends", || self.child.try_wait().expect("a child"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("--- hermesd's log ---\n{}", self.log());
            }
        }
    }
}
