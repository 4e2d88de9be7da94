//! Reads the keyboard: a line editor between turns, and a silent listener for typed lines during a turn. It runs in its
//! own thread, because reading a terminal blocks. The thread ends with the program.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Cmd, Config, EventHandler, KeyCode, KeyEvent, Modifiers};
use tokio::sync::mpsc;

use super::completing::{Completing, Offers, PromptMark};
use crate::cli::output;

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
    /// From now on a line answers the open question.
    Answering,
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
    Listen(Arc<AtomicBool>, Listener),
}

/// What a listener does with lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Listener {
    /// They are typed ahead, without an echo in the middle of the reply.
    Ahead,
    /// They answer a question, which has its prompt on the screen. The terminal edits and echoes them, so that Ctrl-C
    /// is a signal as in the rest of the turn.
    Answer,
}

/// Prints above the prompt, and draws the prompt again with all that is typed there.
type Printer = Box<dyn rustyline::ExternalPrinter + Send>;

pub(super) struct Editor {
    commands: std::sync::mpsc::Sender<EditorCommand>,
    events: mpsc::Receiver<Message>,
    offers: Arc<Mutex<Offers>>,
    /// The mode of the terminal at the start. It is restored at the end.
    original: Option<Termios>,
    listening: Option<(Arc<AtomicBool>, Listener)>,
    /// The listener is one for answers, and has begun.
    answering: bool,
    /// The listeners that have not reported their end. Their lines come before any edited line.
    listeners: usize,
    /// Whether a line is requested.
    editing: bool,
    prompt: Arc<Mutex<Prompt>>,
    mark: Arc<Mutex<PromptMark>>,
    printer: Arc<Mutex<Option<Printer>>>,
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
        let mark: Arc<Mutex<PromptMark>> = Arc::default();
        let completer = Completing(offers.clone(), mark.clone());
        let printer: Arc<Mutex<Option<Printer>>> = Arc::default();
        let printing = printer.clone();
        let prompt = Arc::new(Mutex::new(Prompt::Idle));
        let shared = prompt.clone();
        let original = tcgetattr(std::io::stdin()).ok();
        std::thread::spawn(move || run_thread(completer, &printing, &receiver, &sender, &shared));
        Editor {
            commands,
            events,
            offers,
            original,
            listening: None,
            answering: false,
            listeners: 0,
            editing: false,
            prompt,
            mark,
            printer,
        }
    }

    pub(super) fn offer(&self, offers: Offers) {
        *locked(&self.offers) = offers;
    }

    /// The next edited line. You may drop the future and call it again: the prompt stays.
    pub(super) async fn line(&mut self) -> InputEvent {
        self.stop_listening();
        while self.listeners > 0 {
            match self.next_event().await {
                None | Some(InputEvent::Answering) => {}
                Some(event) => return event,
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

    /// Whether the prompt is on the screen, or about to be.
    pub(super) fn is_editing(&self) -> bool {
        self.editing
    }

    /// Prints lines above the prompt. Returns false if there is no prompt.
    pub(super) fn print_above(&self, lines: &str) -> bool {
        let mut printer = locked(&self.printer);
        match printer.as_mut().filter(|_| self.editing) {
            Some(printer) => printer.print(lines.to_owned()).is_ok(),
            None => false,
        }
    }

    /// Changes the prompt. It appears when the prompt is drawn again.
    pub(super) fn mark(&self, mark: PromptMark) {
        *locked(&self.mark) = mark;
    }

    /// The next line that is typed during a turn.
    pub(super) async fn typed(&mut self, listener: Listener) -> InputEvent {
        if self.listening.as_ref().map(|(_, kind)| *kind) != Some(listener) {
            self.stop_listening();
            let listening = Arc::new(AtomicBool::new(true));
            let command = EditorCommand::Listen(listening.clone(), listener);
            let _ = self.commands.send(command);
            self.listening = Some((listening, listener));
            self.listeners += 1;
        }
        loop {
            match self.next_event().await {
                Some(InputEvent::Answering) if listener == Listener::Answer => {
                    self.answering = true;
                    return InputEvent::Answering;
                }
                None | Some(InputEvent::Answering) => {}
                Some(event) => return event,
            }
        }
    }

    /// Whether the next line answers the open question. Its prompt may be shown then, and not before: what is typed
    /// before is typed ahead.
    pub(super) fn is_answering(&self) -> bool {
        self.answering
    }

    async fn next_event(&mut self) -> Message {
        let event = self.events.recv().await.unwrap_or(Some(InputEvent::End));
        if event.is_none() {
            self.listeners -= 1;
        }
        event
    }

    fn stop_listening(&mut self) {
        self.answering = false;
        if let Some((listening, _)) = self.listening.take() {
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

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn run_thread(
    completer: Completing,
    printer: &Mutex<Option<Printer>>,
    receiver: &std::sync::mpsc::Receiver<EditorCommand>,
    sender: &mpsc::Sender<Message>,
    prompt: &Mutex<Prompt>,
) {
    let history = history_file();
    let Ok(mut editor) = editor(completer, history.as_ref()) else {
        let _ = sender.blocking_send(Some(InputEvent::End));
        return;
    };
    let above = editor.create_external_printer();
    *locked(printer) = above.ok().map(|above| Box::new(above) as Printer);
    // What a listener has read of a line that is not at its end.
    let mut begun = String::new();
    while let Ok(command) = receiver.recv() {
        let sent = match command {
            EditorCommand::Edit => {
                if !transition(prompt, Prompt::Idle, Prompt::Shown) {
                    return;
                }
                let event = edit(&mut editor, &std::mem::take(&mut begun), history.as_ref());
                transition(prompt, Prompt::Shown, Prompt::Idle);
                sender.blocking_send(Some(event))
            }
            EditorCommand::Listen(flag, listener) => {
                listen(&flag, listener, &mut begun, sender, prompt)
                    .and_then(|()| sender.blocking_send(None))
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

fn edit(editor: &mut LineEditor, begun: &str, history: Option<&PathBuf>) -> InputEvent {
    loop {
        match editor.readline_with_initial(PROMPT, (begun, "")) {
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

/// Reads whole lines. An unfinished line stays in the terminal and appears in the next prompt. So does one that was
/// begun before the terminal reads lines: then it is in `begun`.
fn listen(
    flag: &AtomicBool,
    listener: Listener,
    begun: &mut String,
    sender: &mpsc::Sender<Message>,
    prompt: &Mutex<Prompt>,
) -> Result<(), mpsc::error::SendError<Message>> {
    let stdin = std::io::stdin();
    let echoing = tcgetattr(&stdin).ok();
    if let Some(echoing) = &echoing {
        let mut quiet = echoing.clone();
        if listener == Listener::Ahead {
            quiet.local_flags.remove(LocalFlags::ECHO);
        }
        // `Editor::drop` restores the mode under the same lock, so that we cannot change it afterwards.
        let prompt = locked(prompt);
        if *prompt == Prompt::Closed {
            return Ok(());
        }
        let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, &quiet);
    }
    let mut sent = match listener {
        Listener::Ahead => Ok(()),
        Listener::Answer => sender.blocking_send(Some(InputEvent::Answering)),
    };
    let mut bytes = std::mem::take(begun).into_bytes();
    while sent.is_ok() {
        // Lines that were typed before the end of the listener are its own: they do not answer a later question.
        let is_over = !flag.load(Ordering::Relaxed);
        let patience = if is_over { 0 } else { LISTEN_POLL };
        let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let is_ready = matches!(poll(&mut ready, PollTimeout::from(patience)), Ok(1..));
        if !is_ready && is_over {
            break;
        }
        if !is_ready {
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
        // The line editor's mode does not convert the Enter key, so its byte may still be there.
        while let Some(at) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let line: Vec<u8> = bytes.drain(..=at).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let event = match listener {
                Listener::Ahead => InputEvent::TypedAhead(line),
                Listener::Answer => InputEvent::Line(line),
            };
            sent = sender.blocking_send(Some(event));
        }
    }
    *begun = String::from_utf8_lossy(&bytes).into_owned();
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
