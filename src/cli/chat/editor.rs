//! The keyboard: a line editor between turns, and an ear for typed lines while an answer comes. It has a thread of its
//! own, since reading a terminal blocks; the thread ends with the program.

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
/// How many lines the arrow keys bring back.
const HISTORY: usize = 1000;
/// How soon the ear notices that the answer is over, in milliseconds.
const EAR: u16 = 50;
/// How long the line editor may take to take the terminal.
const TAKING: Duration = Duration::from_millis(100);
/// Ends the bracketed paste that the line editor had asked for, and its row.
const UNPROMPT: &str = "\x1b[?2004l\n";

/// What comes from the keyboard.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Line(String),
    /// Typed without an echo while an answer came.
    Unseen(String),
    /// Ctrl-C at the prompt.
    Interrupt,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// Nothing: an ear has listened to its end, and what is typed from now on is for the prompt.
type Told = Option<Heard>;

enum Wish {
    /// Show the prompt and edit a line.
    Edit,
    /// Listen until the flag falls.
    Listen(Arc<AtomicBool>),
}

/// What Tab offers.
#[derive(Debug, Clone, Default)]
pub(super) struct Offers {
    /// Platforms that a handoff can go to.
    pub(super) platforms: Vec<String>,
    /// Titles and ids of sessions.
    pub(super) sessions: Vec<String>,
}

pub(super) struct Editor {
    wishes: std::sync::mpsc::Sender<Wish>,
    told: mpsc::Receiver<Told>,
    offers: Arc<Mutex<Offers>>,
    /// How the terminal was found; it is left the same way.
    found: Option<Termios>,
    listening: Option<Arc<AtomicBool>>,
    /// Ears that have not told their end. What they heard comes before anything that is edited.
    ears: usize,
    /// A line is asked for.
    editing: bool,
    prompt: Arc<Mutex<Prompt>>,
}

/// Who has the terminal.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Prompt {
    Idle,
    /// The line editor has it, or is about to.
    Shown,
    /// We are leaving: nobody takes it any more.
    Closed,
}

impl Editor {
    pub(super) fn start() -> Editor {
        let (wishes, wanted) = std::sync::mpsc::channel();
        let (tell, told) = mpsc::channel(64);
        let offers: Arc<Mutex<Offers>> = Arc::default();
        let completer = Completing(offers.clone());
        let prompt = Arc::new(Mutex::new(Prompt::Idle));
        let shared = prompt.clone();
        let found = tcgetattr(std::io::stdin()).ok();
        std::thread::spawn(move || attend(completer, &wanted, &tell, &shared));
        Editor {
            wishes,
            told,
            offers,
            found,
            listening: None,
            ears: 0,
            editing: false,
            prompt,
        }
    }

    pub(super) fn offer(&self, offers: Offers) {
        *locked(&self.offers) = offers;
    }

    /// The next line that somebody edits. May be dropped and asked for again: the prompt stays.
    pub(super) async fn line(&mut self) -> Heard {
        self.stop_listening();
        while self.ears > 0 {
            if let Some(heard) = self.told().await {
                return heard;
            }
        }
        if !self.editing {
            self.editing = true;
            // A thread that is gone has told the end.
            let _ = self.wishes.send(Wish::Edit);
        }
        let heard = self.told().await.unwrap_or(Heard::End);
        self.editing = false;
        heard
    }

    /// The next line that somebody types while an answer comes.
    pub(super) async fn typed(&mut self) -> Heard {
        if self.listening.is_none() {
            let listening = Arc::new(AtomicBool::new(true));
            let _ = self.wishes.send(Wish::Listen(listening.clone()));
            self.listening = Some(listening);
            self.ears += 1;
        }
        loop {
            if let Some(heard) = self.told().await {
                return heard;
            }
        }
    }

    async fn told(&mut self) -> Told {
        let told = self.told.recv().await.unwrap_or(Some(Heard::End));
        if told.is_none() {
            self.ears -= 1;
        }
        told
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
        let Some(found) = &self.found else { return };
        let before = std::mem::replace(&mut *locked(&self.prompt), Prompt::Closed);
        if before == Prompt::Shown {
            // The line editor takes the terminal a moment after it said so. Given back too early, it would stay taken.
            let since = Instant::now();
            while !is_raw() && since.elapsed() < TAKING {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, found);
        if before == Prompt::Shown {
            // Which the line editor does not live to do.
            output::prompt(UNPROMPT);
        }
    }
}

/// So is a terminal that is gone: nothing is to be expected of it.
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

fn attend(
    completer: Completing,
    wanted: &std::sync::mpsc::Receiver<Wish>,
    tell: &mpsc::Sender<Told>,
    prompt: &Mutex<Prompt>,
) {
    let history = history_file();
    let Ok(mut editor) = editor(completer, history.as_ref()) else {
        let _ = tell.blocking_send(Some(Heard::End));
        return;
    };
    while let Ok(wish) = wanted.recv() {
        let told = match wish {
            Wish::Edit => {
                if !passes(prompt, Prompt::Idle, Prompt::Shown) {
                    return;
                }
                let heard = edit(&mut editor, history.as_ref());
                passes(prompt, Prompt::Shown, Prompt::Idle);
                tell.blocking_send(Some(heard))
            }
            Wish::Listen(flag) => {
                listen(&flag, tell, prompt).and_then(|()| tell.blocking_send(None))
            }
        };
        if told.is_err() {
            return;
        }
    }
}

/// False: we are leaving.
fn passes(prompt: &Mutex<Prompt>, from: Prompt, to: Prompt) -> bool {
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
    // A line end within the message; pasted ones are kept anyway.
    editor.bind_sequence(
        KeyEvent(KeyCode::Enter, Modifiers::ALT),
        EventHandler::Simple(Cmd::Newline),
    );
    if let Some(file) = history {
        // There is none the first time.
        let _ = editor.load_history(file);
    }
    Ok(editor)
}

fn edit(editor: &mut LineEditor, history: Option<&PathBuf>) -> Heard {
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                let kept = editor.add_history_entry(line.as_str());
                if let (Ok(true), Some(file)) = (kept, history) {
                    let _ = editor.append_history(file);
                }
                return Heard::Line(line);
            }
            Err(ReadlineError::Interrupted) => return Heard::Interrupt,
            // The window has another size now.
            Err(ReadlineError::Signal(_)) => {}
            Err(_) => return Heard::End,
        }
    }
}

/// Whole lines only, without an echo in the middle of the answer. What is typed and not finished stays in the terminal,
/// and is in the next prompt.
fn listen(
    flag: &AtomicBool,
    tell: &mpsc::Sender<Told>,
    prompt: &Mutex<Prompt>,
) -> Result<(), mpsc::error::SendError<Told>> {
    let stdin = std::io::stdin();
    let echoing = tcgetattr(&stdin).ok();
    if let Some(echoing) = &echoing {
        let mut quiet = echoing.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        // Whoever leaves gives the terminal back under the same lock, so that it is not taken behind their back.
        let prompt = locked(prompt);
        if *prompt == Prompt::Closed {
            return Ok(());
        }
        let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, &quiet);
    }
    let mut told = Ok(());
    let mut bytes = Vec::new();
    while flag.load(Ordering::Relaxed) && told.is_ok() {
        let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut ready, PollTimeout::from(EAR)), Ok(1..)) {
            continue;
        }
        let mut chunk = [0; 4096];
        match nix::unistd::read(&stdin, &mut chunk) {
            Ok(0) | Err(_) => {
                told = tell.blocking_send(Some(Heard::End));
                break;
            }
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        }
        while let Some(at) = bytes.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = bytes.drain(..=at).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            told = tell.blocking_send(Some(Heard::Unseen(line)));
        }
    }
    if let Some(echoing) = &echoing {
        let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, echoing);
    }
    told
}

/// For its owner only, since what people say to an agent is nobody else's.
fn history_file() -> Option<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty());
    let state = match state {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let directory = state.join("hermesd");
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory);
    made.ok().map(|()| directory.join("chat_history"))
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

/// Where the word begins that is completed, and what it can become.
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
