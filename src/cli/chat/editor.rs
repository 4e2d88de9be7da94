//! Reads the keyboard: a line editor between turns, and a silent listener for typed lines during a turn. It runs in its
//! own thread, because reading a terminal blocks. The thread ends with the program.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Cmd, Config, Context, EventHandler, Helper, KeyCode, KeyEvent, Modifiers};
use tokio::sync::mpsc;

use crate::cli::output;
use crate::domain::slash_command::{self, Place};

const PROMPT: &str = "> ";
/// The number of lines in the history.
const HISTORY: usize = 1000;
/// The interval in milliseconds in which the listener checks whether the turn is over.
const LISTEN_POLL: u16 = 50;
/// The longest time that the line editor needs to switch the terminal to raw mode.
const EDITOR_START: Duration = Duration::from_millis(100);
/// Ends the bracketed paste mode of the line editor, and its row.
const LEAVE_PROMPT: &str = "\x1b[?2004l\n";

/// An event from the keyboard.
#[derive(Debug, PartialEq)]
pub(super) enum InputEvent {
    Line(String),
    /// A line that was typed without an echo during a turn.
    TypedAhead(String),
    /// Ctrl-C at the prompt.
    Interrupt,
    /// Ctrl-D, or the terminal was closed.
    End,
}

/// `None` if a listener has ended. Later input belongs to the prompt.
type Message = Option<InputEvent>;

enum EditorCommand {
    /// Show the prompt and edit a line.
    Edit,
    /// Listen until the flag is false.
    Listen(Arc<AtomicBool>),
}

/// The words that Tab offers.
#[derive(Debug, Clone, Default)]
pub(super) struct Offers {
    /// Platforms that a handoff can go to.
    pub(super) platforms: Vec<String>,
    /// Titles and ids of sessions.
    pub(super) sessions: Vec<String>,
}

pub(super) struct Editor {
    commands: std::sync::mpsc::Sender<EditorCommand>,
    events: mpsc::Receiver<Message>,
    offers: Arc<Mutex<Offers>>,
    /// The mode of the terminal at the start. It is restored at the end.
    original: Option<Termios>,
    listening: Option<Arc<AtomicBool>>,
    /// The listeners that have not reported their end. Their lines come before any edited line.
    listeners: usize,
    /// Whether a line is requested.
    editing: bool,
    prompt: Arc<Mutex<Prompt>>,
}

/// Who uses the terminal.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Prompt {
    Idle,
    /// The line editor uses it, or is about to.
    Shown,
    /// The program leaves. No part may use it any more.
    Closed,
}

impl Editor {
    pub(super) fn start() -> Editor {
        let (commands, receiver) = std::sync::mpsc::channel();
        let (sender, events) = mpsc::channel(64);
        let offers: Arc<Mutex<Offers>> = Arc::default();
        let completer = Completing(offers.clone());
        let prompt = Arc::new(Mutex::new(Prompt::Idle));
        let shared = prompt.clone();
        let original = tcgetattr(std::io::stdin()).ok();
        std::thread::spawn(move || run_thread(completer, &receiver, &sender, &shared));
        Editor {
            commands,
            events,
            offers,
            original,
            listening: None,
            listeners: 0,
            editing: false,
            prompt,
        }
    }

    pub(super) fn offer(&self, offers: Offers) {
        *locked(&self.offers) = offers;
    }

    /// The next edited line. You may drop the future and call it again: the prompt stays.
    pub(super) async fn line(&mut self) -> InputEvent {
        self.stop_listening();
        while self.listeners > 0 {
            if let Some(event) = self.next_event().await {
                return event;
            }
        }
        if !self.editing {
            self.editing = true;
            // A thread that has ended has sent `End` before.
            let _ = self.commands.send(EditorCommand::Edit);
        }
        let event = self.next_event().await.unwrap_or(InputEvent::End);
        self.editing = false;
        event
    }

    /// The next line that is typed during a turn.
    pub(super) async fn typed(&mut self) -> InputEvent {
        if self.listening.is_none() {
            let listening = Arc::new(AtomicBool::new(true));
            let _ = self.commands.send(EditorCommand::Listen(listening.clone()));
            self.listening = Some(listening);
            self.listeners += 1;
        }
        loop {
            if let Some(event) = self.next_event().await {
                return event;
            }
        }
    }

    async fn next_event(&mut self) -> Message {
        let event = self.events.recv().await.unwrap_or(Some(InputEvent::End));
        if event.is_none() {
            self.listeners -= 1;
        }
        event
    }

    fn stop_listening(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.stop_listening();
        let Some(original) = &self.original else {
            return;
        };
        let before = std::mem::replace(&mut *locked(&self.prompt), Prompt::Closed);
        if before == Prompt::Shown {
            // The line editor switches to raw mode a moment after it has set `Shown`. If we restored the mode before
            // that, the terminal would stay raw.
            let since = Instant::now();
            while !is_raw() && since.elapsed() < EDITOR_START {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, original);
        if before == Prompt::Shown {
            // The line editor does not get the chance to do this.
            output::prompt(LEAVE_PROMPT);
        }
    }
}

/// True also for a closed terminal, whose mode does not matter.
fn is_raw() -> bool {
    let modes = tcgetattr(std::io::stdin());
    modes.map_or(true, |modes| {
        !modes.local_flags.contains(LocalFlags::ICANON)
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn run_thread(
    completer: Completing,
    receiver: &std::sync::mpsc::Receiver<EditorCommand>,
    sender: &mpsc::Sender<Message>,
    prompt: &Mutex<Prompt>,
) {
    let history = history_file();
    let Ok(mut editor) = editor(completer, history.as_ref()) else {
        let _ = sender.blocking_send(Some(InputEvent::End));
        return;
    };
    while let Ok(command) = receiver.recv() {
        let sent = match command {
            EditorCommand::Edit => {
                if !transition(prompt, Prompt::Idle, Prompt::Shown) {
                    return;
                }
                let event = edit(&mut editor, history.as_ref());
                transition(prompt, Prompt::Shown, Prompt::Idle);
                sender.blocking_send(Some(event))
            }
            EditorCommand::Listen(flag) => {
                listen(&flag, sender, prompt).and_then(|()| sender.blocking_send(None))
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Returns false if the program leaves.
fn transition(prompt: &Mutex<Prompt>, from: Prompt, to: Prompt) -> bool {
    let mut prompt = locked(prompt);
    let passes = *prompt == from;
    if passes {
        *prompt = to;
    }
    passes
}

type LineEditor = rustyline::Editor<Completing, FileHistory>;

fn editor(completer: Completing, history: Option<&PathBuf>) -> rustyline::Result<LineEditor> {
    let config = Config::builder()
        .max_history_size(HISTORY)?
        .history_ignore_space(true)
        .bracketed_paste(true)
        .build();
    let mut editor = LineEditor::with_config(config)?;
    editor.set_helper(Some(completer));
    // Alt-Enter adds a line end to the message. Pasted line ends are kept anyway.
    editor.bind_sequence(
        KeyEvent(KeyCode::Enter, Modifiers::ALT),
        EventHandler::Simple(Cmd::Newline),
    );
    if let Some(file) = history {
        // The file does not exist at the first start.
        let _ = editor.load_history(file);
    }
    Ok(editor)
}

fn edit(editor: &mut LineEditor, history: Option<&PathBuf>) -> InputEvent {
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                let kept = editor.add_history_entry(line.as_str());
                if let (Ok(true), Some(file)) = (kept, history) {
                    let _ = editor.append_history(file);
                }
                return InputEvent::Line(line);
            }
            Err(ReadlineError::Interrupted) => return InputEvent::Interrupt,
            // The window was resized.
            Err(ReadlineError::Signal(_)) => {}
            Err(_) => return InputEvent::End,
        }
    }
}

/// Reads whole lines without an echo in the middle of the reply. An unfinished line stays in the terminal and appears
/// in the next prompt.
fn listen(
    flag: &AtomicBool,
    sender: &mpsc::Sender<Message>,
    prompt: &Mutex<Prompt>,
) -> Result<(), mpsc::error::SendError<Message>> {
    let stdin = std::io::stdin();
    let echoing = tcgetattr(&stdin).ok();
    if let Some(echoing) = &echoing {
        let mut quiet = echoing.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        // `Editor::drop` restores the mode under the same lock, so that we cannot change it afterwards.
        let prompt = locked(prompt);
        if *prompt == Prompt::Closed {
            return Ok(());
        }
        let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, &quiet);
    }
    let mut sent = Ok(());
    let mut bytes = Vec::new();
    while flag.load(Ordering::Relaxed) && sent.is_ok() {
        let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut ready, PollTimeout::from(LISTEN_POLL)), Ok(1..)) {
            continue;
        }
        let mut chunk = [0; 4096];
        match nix::unistd::read(&stdin, &mut chunk) {
            Ok(0) | Err(_) => {
                sent = sender.blocking_send(Some(InputEvent::End));
                break;
            }
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        }
        while let Some(at) = bytes.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = bytes.drain(..=at).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            sent = sender.blocking_send(Some(InputEvent::TypedAhead(line)));
        }
    }
    if let Some(echoing) = &echoing {
        let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, echoing);
    }
    sent
}

/// The directory is for its owner only, because messages to an agent are private.
fn history_file() -> Option<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty());
    let state = match state {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let directory = state.join("hermesd");
    let created = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory);
    created.ok().map(|()| directory.join("chat_history"))
}

/// Completes commands, the platforms of `/handoff` and the sessions of `/resume`.
struct Completing(Arc<Mutex<Offers>>);

impl Completer for Completing {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(&line[..at], &locked(&self.0)))
    }
}

impl Hinter for Completing {
    type Hint = String;
}
impl Highlighter for Completing {}
impl Validator for Completing {}
impl Helper for Completing {}

/// The start of the word to complete, and its candidates.
fn complete(typed: &str, offers: &Offers) -> (usize, Vec<String>) {
    let (start, words) = match typed.split_once(' ') {
        None => (0, slash_command::words(Place::Terminal)),
        Some(("/handoff", _)) => (9, offers.platforms.clone()),
        Some(("/resume", _)) => (8, offers.sessions.clone()),
        Some(_) => return (0, Vec::new()),
    };
    let begun = &typed[start..];
    let fits = |word: &String| word.starts_with(begun) && typed.starts_with('/');
    (start, words.into_iter().filter(fits).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_completes_commands_platforms_and_sessions() {
        let offers = Offers {
            platforms: vec!["local".into(), "telegram".into()],
            sessions: vec!["Fix the parser".into()],
        };
        let all = |typed| complete(typed, &offers);
        assert_eq!(all("/ha"), (0, vec!["/handoff ".to_owned()]));
        assert_eq!(all("/handoff t"), (9, vec!["telegram".to_owned()]));
        assert_eq!(all("/handoff ").1.len(), 2);
        assert_eq!(all("/resume Fix t"), (8, vec!["Fix the parser".to_owned()]));
        assert_eq!(all("hello /ha").1, Vec::<String>::new());
        assert_eq!(all("").1, Vec::<String>::new());
    }
}
