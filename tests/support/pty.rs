//! hermesctl in a pseudo-terminal: what a person types, and what is on the screen then.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;
use pty_process::Size;
use pty_process::blocking::{self, Pty};

use super::{Home, until};

/// Killed when dropped, and then the last screen of a failed test is shown.
pub struct Terminal {
    child: Child,
    /// How the terminal was before anybody used it.
    found: Termios,
    screen: Arc<Mutex<vt100::Parser>>,
    /// Our end; none when it was hung up.
    pty: Option<Arc<Pty>>,
    reader: Option<JoinHandle<()>>,
    /// Dropped, the reader stops: it must not hold our end open when that is to be closed.
    reading: Option<UnixStream>,
}

impl Terminal {
    pub fn open(home: &Home, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let mut command = home.command(env!("CARGO_BIN_EXE_hermesctl"));
        command.args(arguments);
        Terminal::of(command, columns, rows)
    }

    /// Any other program.
    pub fn of(mut command: Command, columns: u16, rows: u16) -> Terminal {
        let (pty, pts) = blocking::open().expect("a pseudo-terminal");
        pty.resize(Size::new(rows, columns)).expect("a size");
        let found = tcgetattr(&pty).expect("the modes of a terminal");
        if command.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm-256color");
        }
        // With the terminal as the controlling one, so that its Ctrl-C and its end are signals.
        let child = blocking::Command::from(command).spawn(pts);
        let [rows, columns] = [rows, columns].map(|n| NonZeroU16::new(n).expect("some size"));
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (reading, stopped) = UnixStream::pair().expect("a pair of sockets");
        let pty = Arc::new(pty);
        let (master, shared) = (pty.clone(), screen.clone());
        Terminal {
            child: child.expect("hermesctl"),
            found,
            screen,
            pty: Some(pty),
            reader: Some(std::thread::spawn(move || {
                read(&master, &stopped, &shared);
            })),
            reading: Some(reading),
        }
    }

    /// Bytes as a keyboard sends them.
    pub fn press(&self, keys: impl AsRef<[u8]>) {
        let mut pty: &Pty = self.pty.as_ref().expect("a terminal that is there");
        pty.write_all(keys.as_ref()).expect("a terminal that reads");
    }

    /// Words and Enter, wherever they go.
    pub fn type_line(&self, line: &str) {
        self.press(format!("{line}\r"));
    }

    /// Waits for the prompt, and answers it.
    pub fn say(&self, line: &str) {
        self.prompts();
        self.press(line);
        // So that whoever waits for the next prompt does not take this one for it.
        self.wait_for("what is typed on the screen", || !self.is_prompting());
        self.press("\r");
    }

    pub fn screen(&self) -> String {
        self.look(|screen| screen.contents())
    }

    pub fn look<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(locked(&self.screen).screen())
    }

    /// Waits until the words are on the screen.
    pub fn shows(&self, words: &str) {
        self.shows_times(words, 1);
    }

    /// The same for words that come again and again.
    pub fn shows_times(&self, words: &str, times: usize) {
        self.wait_for(&format!("{words:?} on the screen"), || {
            self.screen().matches(words).count() >= times
        });
    }

    /// Waits for a prompt with nothing behind it yet.
    pub fn prompts(&self) {
        self.wait_for("an empty prompt", || self.is_prompting());
    }

    fn is_prompting(&self) -> bool {
        self.look(|screen| {
            let (row, column) = screen.cursor_position();
            let line = screen.rows(0, u16::MAX).nth(row.into());
            column == 2 && line.is_some_and(|line| line.trim_end() == ">")
        })
    }

    fn wait_for(&self, what: &str, mut seen: impl FnMut() -> bool) {
        until(what, || {
            // Asked first: all that a program wrote is on the screen when the reader is at the end.
            let over = self.reader.as_ref().is_none_or(JoinHandle::is_finished);
            let seen = seen();
            assert!(seen || !over, "hermesctl has ended; waited for {what}");
            seen.then_some(())
        });
    }

    /// Whether every letter of a word in that row is bold.
    pub fn is_bold(&self, row: u16, word: &str) -> bool {
        self.look(|screen| {
            let line = screen.rows(0, u16::MAX).nth(row.into()).expect("a row");
            let start = line.find(word).expect("the word in the row");
            let start = line[..start].chars().count();
            let mut columns = start..start + word.chars().count();
            columns.all(|column| {
                let column = u16::try_from(column).expect("a column");
                screen.cell(row, column).is_some_and(vt100::Cell::bold)
            })
        })
    }

    /// Whether the modes are those that the terminal was found with.
    pub fn is_as_found(&self) -> bool {
        let pty = self.pty.as_ref().expect("a terminal that is there");
        let modes = tcgetattr(pty).expect("the modes of a terminal");
        modes == self.found && !self.look(vt100::Screen::bracketed_paste)
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("a signal");
    }

    /// Closes the window: the kernel hangs up on everybody who is in it.
    pub fn hang_up(&mut self) {
        self.reading = None;
        self.finish_reading();
        let pty = self.pty.take().expect("a terminal that is there");
        let last = Arc::into_inner(pty).expect("nobody else who holds it open");
        drop(last);
    }

    /// Waits for the end. The exit code, or -1 when a signal was the end of it.
    pub fn end(&mut self) -> i32 {
        let status = until("hermesctl ends", || self.child.try_wait().expect("a child"));
        self.finish_reading();
        status.code().unwrap_or(-1)
    }

    fn finish_reading(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("a reader");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("--- the last screen ---\n{}", self.screen());
            }
        }
        self.reading = None;
    }
}

/// Until the program has closed its end, or somebody wants us to stop.
fn read(mut pty: &Pty, stopped: &UnixStream, screen: &Mutex<vt100::Parser>) {
    let mut chunk = [0; 4096];
    loop {
        let mut ready = [
            PollFd::new(pty.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut ready, PollTimeout::NONE).expect("a poll");
        if ready[1].any() == Some(true) {
            return;
        }
        match pty.read(&mut chunk) {
            Ok(n) if n > 0 => locked(screen).process(&chunk[..n]),
            _ => return,
        }
    }
}

fn locked(screen: &Mutex<vt100::Parser>) -> MutexGuard<'_, vt100::Parser> {
    screen
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
