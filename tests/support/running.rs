//! hermesctl in the background, for what happens while it waits.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use super::{Home, Ran, until};

/// Killed when dropped.
pub struct Running(Child);

impl Home {
    /// Starts hermesctl without waiting for its end. What it prints has to fit a pipe.
    pub fn spawn_hermesctl(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Running {
        let mut command = self.command(env!("CARGO_BIN_EXE_hermesctl"));
        command.args(arguments).envs(environment.iter().copied());
        Running::start(command.stdin(Stdio::null()))
    }

    /// The same with something to read.
    pub fn pipe_into_hermesctl(&self, text: &str, arguments: &[&str]) -> Running {
        self.write("input", text);
        let input = std::fs::File::open(self.path().join("input")).expect("a file");
        let mut command = self.command(env!("CARGO_BIN_EXE_hermesctl"));
        Running::start(command.args(arguments).stdin(input))
    }

    /// Starts hermesctl with a pipe that [`Running::write`] writes into.
    pub fn feed_hermesctl(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(env!("CARGO_BIN_EXE_hermesctl"));
        Running::start(command.args(arguments).stdin(Stdio::piped()))
    }

    /// Waits until a handoff stands still at the place that HERMESD_PAUSE_AT names.
    pub fn until_paused(&self) {
        until("the handoff stands still", || {
            self.path().join("paused").exists().then_some(())
        });
    }
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().expect("hermesctl"))
    }

    pub fn write(&mut self, text: &str) {
        let stdin = self.0.stdin.as_mut().expect("a pipe");
        stdin.write_all(text.as_bytes()).expect("a reader");
    }

    pub fn end(mut self) -> Ran {
        drop(self.0.stdin.take());
        let status = until("hermesctl ends", || self.0.try_wait().expect("a child"));
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let child = &mut self.0;
        child
            .stdout
            .take()
            .expect("a pipe")
            .read_to_string(&mut stdout)
            .expect("text");
        child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut stderr)
            .expect("text");
        Ran {
            code: status.code().unwrap_or(-1),
            stdout,
            stderr,
        }
    }

    pub fn stdout(&mut self) -> std::process::ChildStdout {
        self.0.stdout.take().expect("a pipe")
    }

    /// The exit code, when somebody else reads the output.
    pub fn code(mut self) -> Option<i32> {
        until("hermesctl ends", || self.0.try_wait().expect("a child")).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
