//! The other program at a conversation, as a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::Home;

/// Killed when dropped.
pub struct Taker {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Taker {
    pub fn start(home: &Home, session: &str) -> Taker {
        let binaries = Path::new(env!("CARGO_BIN_EXE_hermesd"))
            .parent()
            .expect("a directory");
        let program = binaries.join("examples/turn-taker");
        let mut child = Command::new(program)
            .arg(home.path().join("state.db"))
            .arg(session)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example turn-taker, which `cargo test` builds");
        Taker {
            orders: child.stdin.take().expect("a pipe"),
            answers: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns when it is done.
    pub fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("an order");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("an answer");
        assert_eq!(answer.trim(), "done", "{order}");
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
