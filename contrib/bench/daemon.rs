//! The hermesd process: started with nothing of the developer's environment, reached over its socket, looked at in /proc.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hermesd::client::{Client, ClientError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Outcome;
use crate::home::Home;

/// How long a start or a stop may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries to connect; shorter than the runtime's timers can wait, so the thread itself sleeps.
const TRY_AGAIN: Duration = Duration::from_micros(500);
/// What /proc counts processor time in; the same on every Linux that Rust knows.
const TICKS_PER_SECOND: f64 = 100.0;

/// Killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

/// Memory of a daemon, in MB.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    /// All that is in memory, with the pages of the program and of the database's index that the system can drop.
    pub(crate) resident: f64,
    /// What the daemon has allocated.
    pub(crate) anonymous: f64,
}

impl Daemon {
    /// Starts hermesd and connects as soon as it answers. Returns the time from the one to the other, too.
    pub(crate) async fn start(home: &Home) -> Outcome<(Daemon, Client, Duration)> {
        Self::start_with(home, &[]).await
    }

    /// The same with commits that do not wait for the disk, which only a benchmark may ask for.
    pub(crate) async fn start_without_flushes(home: &Home) -> Outcome<Daemon> {
        let environment = [("HERMESD_BENCH_NO_FLUSHES", "1")];
        Ok(Self::start_with(home, &environment).await?.0)
    }

    async fn start_with(
        home: &Home,
        environment: &[(&str, &str)],
    ) -> Outcome<(Daemon, Client, Duration)> {
        let log = home.log();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermesd"));
        command
            .env_clear()
            .env("HOME", home.path())
            .env("HERMES_HOME", home.path())
            .env("TZ", "UTC")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().create(true).append(true).open(&log)?);
        let spawned = Instant::now();
        let mut daemon = Daemon {
            child: command.spawn()?,
            socket: home.path().join("control.sock"),
            log,
        };
        loop {
            match Client::connect(&daemon.socket).await {
                Ok(client) => return Ok((daemon, client, spawned.elapsed())),
                Err(ClientError::NoDaemon { .. }) if spawned.elapsed() < PATIENCE => {
                    if let Some(status) = daemon.child.try_wait()? {
                        return Err(daemon.complaint(&format!("ended with {status}")));
                    }
                    std::thread::sleep(TRY_AGAIN);
                }
                Err(error) => return Err(daemon.complaint(&error.to_string())),
            }
        }
    }

    pub(crate) async fn connect(&self) -> Outcome<Client> {
        Ok(Client::connect(&self.socket).await?)
    }

    /// Asks it to stop and sees that it does so cleanly.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        let pid = i32::try_from(self.child.id())?;
        kill(Pid::from_raw(pid), Signal::SIGTERM)?;
        let asked = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.complaint(&format!("ended with {status}"))),
                None if asked.elapsed() > PATIENCE => {
                    return Err(self.complaint("did not stop"));
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    pub(crate) fn memory(&self) -> Outcome<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let megabytes = |name: &str| -> Outcome<f64> {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let line = line.ok_or_else(|| format!("no {name} in /proc"))?;
            let kilobytes = line.split_whitespace().next().ok_or("no number in /proc")?;
            Ok(kilobytes.parse::<f64>()? / 1024.0)
        };
        Ok(Memory {
            resident: megabytes("VmRSS")?,
            anonymous: megabytes("RssAnon")?,
        })
    }

    /// Processor time since its start, in seconds.
    pub(crate) fn processor_time(&self) -> Outcome<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in brackets may hold anything; the third field of the manual is the first behind it.
        let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/PID/stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [user, system] = [fields.get(11), fields.get(12)];
        let ticks =
            user.ok_or("no utime")?.parse::<f64>()? + system.ok_or("no stime")?.parse::<f64>()?;
        Ok(ticks / TICKS_PER_SECOND)
    }

    fn complaint(&self, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(20)..];
        format!("hermesd {what}; the end of its log:\n{}", last.join("\n")).into()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
